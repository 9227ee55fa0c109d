"""XML payloads against XML Schema: what is valid, where it is not, and that nothing is opened, expanded or run."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from lakehouse.match.definition.compiled import Definition
from lakehouse.match.event.canonical import Event
from lakehouse.match.payload.payloads import Payloads, PayloadVerdict
from lakehouse.match.payload.schemas import Schemas, SchemaVersion
from match.catalogs import SAMPLES

pytestmark = pytest.mark.attack

S = "/schemagroups/g/schemas/Order"
ORDER = """
<xs:element name="order"><xs:complexType>
  <xs:sequence>
    <xs:element name="n" type="xs:int"/>
    <xs:element name="isbn" maxOccurs="3">
      <xs:simpleType><xs:restriction base="xs:string"><xs:pattern value="([0-9]+)+x"/></xs:restriction></xs:simpleType>
    </xs:element>
  </xs:sequence>
  <xs:attribute name="id" use="required"/>
</xs:complexType></xs:element>
<xs:element name="other" type="xs:string"/>"""


def schema(*written: str, head: str = "") -> str:
    return f'{head}<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{"".join(written)}</xs:schema>'


def verdict(body: bytes | None, text: str | None = None, format_: str = "XSD/1.0", uri: str = S, **event: Any) -> PayloadVerdict:
    version = SchemaVersion("r", f"{S}/versions/1", S, True, format_, json.dumps(schema(ORDER) if text is None else text))
    definition = Definition("r", "/messagegroups/g/messages/m", dataschemauri=uri)
    given = {"mode": "binary", "family": "KAFKA", "content_type": "application/xml"} | event
    return Payloads(Schemas([version]), 10_000).check(definition, Event(body=body, **given))


TWICE = '<xs:group ref="g{}"/>'
GOOD = b'<?xml version="1.0"?><order id="1"><n>1</n><isbn>12x</isbn></order>'


@pytest.mark.parametrize("format_", ["XSD/1.0", "XSD", "XMLSchema/1.1"])
@pytest.mark.parametrize("kind", ["application/xml; charset=utf-8", "text/xml", "application/order+xml", None])
def test_xml_that_is_valid(format_, kind):
    assert verdict(GOOD, format_=format_, content_type=kind).status == "valid"


def test_xml_in_a_structured_event_is_text():
    assert verdict(None, mode="structured", data=GOOD.decode(), has_data=True).status == "valid"
    assert verdict(None, mode="structured", data={"order": 1}, has_data=True).status == "undecodable"


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        (b"<order><n>1</n><isbn>1x</isbn></order>", ("/order", "complexType")),
        (b'<order id="1"><n>a</n><isbn>1x</isbn></order>', ("/order/n", "simpleType")),
        (b'<order id="1"><n>1</n><isbn>1x</isbn><isbn>1y</isbn></order>', ("/order/isbn[2]", "pattern")),
        (b'<order id="1"><n>1</n></order>', ("/order", "sequence")),
        (b"<more/>", ("/more", "schema")),
    ],
)
def test_where_xml_breaks_the_schema(body, reported):
    found = verdict(body)
    assert (found.status, [(one.pointer, one.keyword) for one in found.errors]) == ("invalid", [reported])


def test_a_reference_may_name_the_element():
    assert verdict(b"<other>x</other>", uri=f"{S}:other").status == "valid"
    assert verdict(GOOD, uri=f"{S}:other").errors[0].pointer == "/order"
    assert verdict(GOOD, uri=f"{S}:none").status == "unsupported_format"


@pytest.mark.parametrize(
    "body",
    [
        b"<order", b'{"n": 1}', b'<!DOCTYPE order [<!ENTITY a "x">]><order id="1"><n>1</n><isbn>&a;</isbn></order>',
        b'<!DOCTYPE order SYSTEM "file:///etc/hostname"><order/>', b"<d>" * 5_000 + b"</d>" * 5_000, b"\xff\xfe\x00",
        b'<?xml version="1.0" encoding="nothing"?><order/>',
    ],
)  # fmt: skip
def test_xml_that_is_not_taken(body):
    found = verdict(body)
    assert (found.status, found.errors[0].keyword) == ("undecodable", "decode")


def test_json_is_no_xml():
    assert verdict(GOOD, content_type="application/json").status == "undecodable"


@pytest.mark.parametrize(
    ("text", "status", "reported"),
    [
        (schema('<xs:include schemaLocation="file:///etc/hostname"/>'), "schema_unresolved", "/etc/hostname"),
        (schema('<xs:import namespace="urn:x" schemaLocation="http://127.0.0.1:9/x.xsd"/>'), "schema_unresolved", "127.0.0.1"),
        (schema(head='<!DOCTYPE x [<!ENTITY a "b">]>'), "unsupported_format", "Entities"),
        (schema('<xs:element name="o" type="none"/>'), "unsupported_format", "none"),
        (schema('<xs:element name="o"><xs:simpleType><xs:restriction base="xs:string"><xs:pattern value="("/>'
                "</xs:restriction></xs:simpleType></xs:element>"), "unsupported_format", ""),
        (schema('<xs:element name="o"><xs:simpleType><xs:restriction base="xs:string"><xs:pattern value="[^\\i\\I]"/>'
                "</xs:restriction></xs:simpleType></xs:element>"), "unsupported_format", "RE2"),
        (schema('<xs:complexType name="t"><xs:assert test="matches(@a, \'(a+)+b\')"/></xs:complexType>'), "unsupported_format",
         "XPath"),
        ("<schema/>", "unsupported_format", ""), ("no XML", "unsupported_format", ""), ("", "unsupported_format", ""),
        (schema('<xs:element name="o"><xs:complexType><xs:sequence><xs:element name="n" type="xs:int" maxOccurs="999999999"/>'
                "</xs:sequence></xs:complexType></xs:element>"), "unsupported_format", "maxOccurs"),
        (schema('<xs:group name="g0"><xs:sequence><xs:element name="a"/></xs:sequence></xs:group>',
                *(f'<xs:group name="g{n}"><xs:sequence><xs:group ref="g{n - 1}"/>{TWICE.format(n - 1)}</xs:sequence></xs:group>'
                  for n in range(1, 60))), "unsupported_format", "particles"),
        (schema('<xs:group name="g"><xs:sequence><xs:group ref="g"/></xs:sequence></xs:group>'), "unsupported_format", "itself"),
    ],
)  # fmt: skip
def test_a_schema_that_is_not_taken_says_why(text, status, reported):
    found = verdict(GOOD, text)
    assert found.status == status, found
    assert reported in found.remarks[0]


def test_no_pattern_backtracks():
    begun = time.process_time()
    body = b'<order id="1"><n>1</n><isbn>' + b"1" * 5_000 + b"</isbn></order>"
    assert verdict(body).status == "invalid"
    assert time.process_time() - begun < 20


@pytest.mark.skipif(not (SAMPLES / "spec").is_dir(), reason="the published samples are not next to this checkout")
def test_published_schemas():
    document = json.loads((SAMPLES / "spec" / "smartoven-xsd.xreg.json").read_bytes())
    [group] = document["schemagroups"].values()
    for name, held in group["schemas"].items():
        [version] = held["versions"].values()
        found = verdict(b"<nothing/>", version["schema"], version["format"])
        assert (found.status, found.errors[0].pointer) == ("invalid", "/nothing"), (name, found)
