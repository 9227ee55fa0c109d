"""How hard the tests of attacks try: once in `make test`, ATTACK_ROUNDS times as much in `make attack`; and what they send."""

from __future__ import annotations

import json
import os
import random
import string
from typing import Any

ROUNDS = int(os.environ.get("ATTACK_ROUNDS", "1"))

HIDDEN = b"PUT /messagegroups/smuggled HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
_PUT = b"PUT /messagegroups/seen HTTP/1.1\r\nHost: localhost\r\n"
_LENGTH = b"%d" % len(HIDDEN)
_CHUNKED = _PUT + b"Transfer-Encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"


def _both(te: bytes, cl: bytes = b"4") -> bytes:
    """Return a request with both kinds of length, which a proxy and a server may understand differently."""
    return _PUT + te + b"\r\nContent-Length: " + cl + b"\r\n\r\n" + _END + HIDDEN


def _te(line: bytes) -> bytes:
    """Return a request whose only length is this line: who passes it over sees two requests."""
    return _PUT + line + b"\r\n\r\n" + b"%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n" + _END


def _cl(line: bytes) -> bytes:
    """Return a request with this line as its length: who reads it as nothing sees two requests."""
    return _PUT + line + b"\r\n\r\n" + HIDDEN


def _chunk(size: bytes, after: bytes = b"\r\n") -> bytes:
    return _CHUNKED + size + b"\r\n" + b"{}" + after + _END + HIDDEN


# Requests that hide a second one: no server may read two requests in them, whatever proxy is in front of it.
SMUGGLED = {
    "both lengths": _both(b"Transfer-Encoding: chunked"),
    "both, in capitals": _both(b"TRANSFER-ENCODING: CHUNKED"),
    "both, a tab": _both(b"Transfer-Encoding:\tchunked"),
    "both, a vertical tab": _both(b"Transfer-Encoding:\x0bchunked"),
    "both, a blank before the colon": _both(b"Transfer-Encoding : chunked"),
    "both, folded": _both(b"Transfer-Encoding:\r\n chunked"),
    "both, quoted": _both(b'Transfer-Encoding: "chunked"'),
    "both, another coding": _both(b"Transfer-Encoding: xchunked"),
    "both, identity": _both(b"Transfer-Encoding: identity", _LENGTH),
    "both, two lines": _both(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
    "both, a list": _both(b"Transfer-Encoding: chunked, identity"),
    "both, a zero byte": _both(b"Transfer-Encoding: chunked\x00"),
    "both, a bare line end before": _both(b"X: y\nTransfer-Encoding: chunked"),
    "both, a bare return before": _both(b"X: y\rTransfer-Encoding: chunked"),
    "both, underscore": _both(b"Transfer_Encoding: chunked", b"%d" % (len(HIDDEN) + len(_END))),
    "coding of another kind": _te(b"Transfer-Encoding: xchunked"),
    "coding that is cut off": _te(b"Transfer-Encoding: chunke"),
    "coding with a blank before": _te(b" Transfer-Encoding: chunked"),
    "coding with a blank after its name": _te(b"Transfer-Encoding : chunked"),
    "coding twice": _te(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    "coding in two steps": _te(b"Transfer-Encoding: gzip, chunked"),
    "chunked is not the last": _te(b"Transfer-Encoding: chunked, gzip"),
    "coding in HTTP/1.0": _te(b"Transfer-Encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0", 1),
    "length with a plus": _cl(b"Content-Length: +" + _LENGTH),
    "negative length": _cl(b"Content-Length: -1"),
    "length in hexadecimal": _cl(b"Content-Length: 0x%x" % len(HIDDEN)),
    "length with a comma": _cl(b"Content-Length: 0, " + _LENGTH),
    "length with a point": _cl(b"Content-Length: " + _LENGTH + b".0"),
    "length that is empty": _cl(b"Content-Length: "),
    "length beyond all numbers": _cl(b"Content-Length: 18446744073709551616"),
    "length twice": _cl(b"Content-Length: 0\r\nContent-Length: " + _LENGTH),
    "length twice, the other way round": _cl(b"Content-Length: " + _LENGTH + b"\r\nContent-Length: 0"),
    "length with a blank before its colon": _cl(b"Content-Length : " + _LENGTH),
    "length with a zero byte": _cl(b"Content-Length: \x00" + _LENGTH),
    "length folded": _cl(b"Content-Length:\r\n " + _LENGTH),
    "chunk with a sign": _chunk(b"+2"),
    "chunk in C's hexadecimal": _chunk(b"0x2"),
    "chunk that is negative": _chunk(b"-2"),
    "chunk beyond all numbers": _chunk(b"fffffffffffffffff2"),
    "chunk without an end": _chunk(b"2", b""),
    "chunk with another end": _chunk(b"2", b"XX"),
    "chunk whose extension has a line end": _chunk(b"2;a=\nb"),
    "upgrade": _PUT.replace(b"PUT /messagegroups/seen", b"GET /")
    + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %s\r\n\r\n" % _LENGTH
    + HIDDEN,
    "a body of GET": b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %s\r\n\r\n" % _LENGTH + HIDDEN,
    "a body of DELETE that is refused": b"DELETE /nosuch HTTP/1.1\r\nHost: localhost\r\nContent-Length: %s\r\n\r\n" % _LENGTH
    + HIDDEN,
    "a body that is expected": _PUT + b"Expect: 100-continue\r\nContent-Length: %s\r\n\r\n" % _LENGTH + HIDDEN,
}

ODD_IDS = [
    "a", "A.b-c_d~e@f:g", "-", ".", "..", "...", "~", "@", ":", "_", "%", "%2e%2e", "a/b", "a\\b", "a b", "a\tb", "a\nb", "\x00",
    "é", "\u202e", "\U0001f600", "versions", "meta", "versions$details", "$details", "a$details", "constructor", "__proto__",
    "con", "nul.json", "x" * 128, "x" * 129, "'; DROP TABLE messages; --", "<script>", "{{7*7}}", "${jndi:x}", "index.html", "0",
    "9" * 40, "1e5", "null", "true",
]  # fmt: skip

# Text that would be an element, an attribute, a style or a script of a page if it were not text there.
MARKUP = [
    "<probe>",
    "<script>probe()</script>",
    '"><probe onprobe=1 x="',
    "' onprobe='probe()' x='",
    "</script><probe>",
    "</textarea></title></style><probe>",
    "<!--<probe>-->",
    "javascript:probe()",
    "data:text/html,<probe>",
    "&lt;probe&gt;&#60;probe&#62;",
    "{{ probe }}{% probe %}",
    "<svg/onload=probe()>",
    "\u2028<probe>\u0000",
    "[x](javascript:probe())",
    '`<probe>` **<probe>** <https://probe.example/"onprobe=>',
]


class Hostile:
    """Bodies that are wrong in some way, the same ones for a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, depth: int = 0) -> Any:
        """Return any JSON value."""
        kind = self.random.randrange(12 if depth < 4 else 9)
        if kind < 3:
            return self.text()
        if kind < 6:
            return self.random.choice(
                [None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, -0.0, 1e-320, 0.1]
            )
        if kind < 9:
            return self.random.choice([[], {}, "", " ", [[]], [{}], {"": ""}, [None] * 50])
        if kind < 10:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        return {self.name(): self.value(depth + 1) for _ in range(self.random.randrange(6))}

    def text(self) -> str:
        """Return a text that some reader stumbles over."""
        odd = ["\u0000", "\ud800", "\u202e", "\ufeff", "\r\n", "'", '"', "\\", "<", "%", "{", "\U0001f600", "é", "/", "#", "~0"]
        made = "".join(self.random.choice(odd + list(string.ascii_letters)) for _ in range(self.random.randrange(12)))
        known = [
            "1.0-rc2",
            "2030-01-01T00:00:00Z",
            "0000-00-00",
            "/messagegroups/g/messages/m",
            "#/x",
            "http://[::1",
            "../..",
            made,
        ]
        return self.random.choice([made, made * self.random.choice([1, 1, 1, 5000]), self.random.choice(known)])

    def name(self) -> str:
        """Return the name of an attribute, most often one that means something."""
        return self.random.choice([*NAMES, self.text(), self.text().lower()])

    def body(self) -> bytes:
        """Return the body of a request."""
        whole = {self.name(): self.value() for _ in range(self.random.randrange(1, 8))}
        text = json.dumps(whole, ensure_ascii=self.random.random() < 0.5).encode("utf-8", "surrogatepass")
        how = self.random.randrange(10)
        if how == 0:
            return text[: self.random.randrange(len(text))]
        if how == 1:
            at = self.random.randrange(len(text))
            return text[:at] + self.random.randbytes(3) + text[at + 1 :]
        if how == 2:
            return self.random.choice(
                [b"", b"[", b"{" * 2000, b"[" * 100_000, b"null", b"\xff\xfe{\x00}\x00", b"1e999", b"NaN", text * 2]
            )
        if how == 3:  # a name twice
            return text[:-1] + b"," + text[1:]
        return text

    def path(self) -> str:
        """Return a path to write to."""
        return self.random.choice(PATHS) + self.random.choice(
            ["", "", "", "?ignore=epoch", "?epoch=x", "?setdefaultversionid=null", "?doc"]
        )


NAMES = [
    "messagegroups", "messages", "endpoints", "schemagroups", "schemas", "versions", "meta", "messageid", "versionid", "schemaid",
    "epoch", "self", "xid", "name", "description", "labels", "createdat", "modifiedat", "ancestor", "isdefault", "envelope",
    "envelopemetadata", "envelopeoptions", "protocol", "protocoloptions", "dataschemaformat", "dataschema", "dataschemauri",
    "datacontenttype", "basemessage", "basemessageuri", "xref", "readonly", "compatibility", "defaultversionid",
    "defaultversionsticky", "deprecated", "usage", "channel", "endpoint", "format", "schema", "schemabase64", "schemauri",
    "contenttype", "specversion", "registryid", "extensions", "documentation", "icon", "messagescount", "messagesurl",
]  # fmt: skip
PATHS = [
    "/", "/messagegroups", "/messagegroups/g", "/messagegroups/g/messages", "/messagegroups/g/messages/m",
    "/messagegroups/g/messages/m/meta", "/messagegroups/g/messages/m/versions", "/messagegroups/g/messages/m/versions/1",
    "/endpoints", "/endpoints/e", "/endpoints/e/messages/m", "/schemagroups", "/schemagroups/s", "/schemagroups/s/schemas/x",
    "/schemagroups/s/schemas/x$details", "/schemagroups/s/schemas/x/versions/1$details", "/schemagroups/s/schemas/x/meta",
    "/messagecatalog/g", "/messagecatalog/g/messagedefinitions/m/versions/1",
]  # fmt: skip
