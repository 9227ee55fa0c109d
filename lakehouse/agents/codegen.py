"""Client code for entities of a catalog: xrcg, another program, generates it from the answers of `lakehouse serve`."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lakehouse.errors import LakehouseError, NotInstalled, SettingsError, XidNotFound
from lakehouse.readmodel import View
from lakehouse.readmodel.detail import full_xid
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import last_id, xid_of_group

XRCG = "xrcg==0.11.0"  # that these arguments were tested with
_LANGUAGES = {"python": "py", "typescript": "ts", "javascript": "ts", "csharp": "cs", "c#": "cs"}
_FAILED = re.compile(r"^(?:=== .*Error|ERROR\b|[\w.]*Error:).*", re.MULTILINE)  # it ends with 0 all the same


class CodeRequest(NamedTuple):
    """What xrcg generates: its arguments but for where it reads and writes, and the registry."""

    registryid: RegistryId
    arguments: list[str]


def code_request(
    view: View, text: str, registryid: RegistryId | None, language: str, role: str, style: str | None
) -> CodeRequest:
    """Return what xrcg has to generate; of a message that is the code of its whole group.

    Raises:
        XidNotFound: there is no such message, group or endpoint.
        SettingsError: several registries have it, or no style suits its protocol.
    """
    xid = Xid(full_xid(view, text, registryid))
    entities = [entity for entity in view.entities(xid, registryid) if entity.kind in ("message", "group", "endpoint")]
    if not entities or xid.startswith("/schemagroups/"):
        raise XidNotFound(text)
    if len(entities) > 1:
        raise SettingsError(f"{xid} is in several registries: name one with --registry.")
    group = xid_of_group(xid)
    language = _LANGUAGES.get(language.lower(), language.lower())
    definition = view.definition(entities[0].registryid, xid) if entities[0].kind == "message" else None
    protocol = (definition or {}).get("protocol") or view.entities(group, entities[0].registryid)[0].attributes.get("protocol")
    style = style or _style(language, str(protocol or "").partition("/")[0].upper(), role)
    project = "".join(word[0].upper() + word[1:] for word in re.findall("[A-Za-z0-9]+", last_id(group))) or "Client"
    limit = "--endpoint" if group.startswith("/endpoints/") else "--messagegroup"
    named = ["--projectname", project, "--language", language, "--style", style, limit, last_id(group)]
    return CodeRequest(entities[0].registryid, named)


def _style(language: str, family: str, role: str) -> str:
    """Return the name that xrcg gives the templates of a language for a protocol."""
    if language in ("asyncapi", "openapi"):
        return "subscriber" if (language, role) == ("openapi", "consumer") else role
    if family in ("KAFKA", "AMQP"):
        return f"{family.lower()}{role}"
    if family == "HTTP" and role == "producer":
        return "producerhttp" if language == "ts" else "producer"
    if family == "MQTT":
        return "mqttclient"
    raise SettingsError(f"xrcg has no {role} of {language} for {family or 'no protocol'}: name --style, one of `xrcg list`.")


def generate_code(request: CodeRequest, serve: list[str], out: Path) -> list[str]:
    """Have xrcg write code into a new folder, and return the paths of its files.

    Args:
        request: what it generates.
        serve: command that serves the registry at a free port, and prints its URL as JSON.
        out: the folder.

    Raises:
        NotInstalled: xrcg is not on the PATH; the text says what to install and to run.
        LakehouseError: xrcg, or the server, failed.
    """
    program = shutil.which("xrcg")
    if program is None:
        url, command = "http://127.0.0.1:8080/?inline=*", ["xrcg", "generate", *request.arguments]
        again = shlex.join([*command, "--output", str(out), "--definitions", url])
        served = f"lakehouse serve --registry {shlex.quote(request.registryid)}"
        raise NotInstalled(f"xrcg is not on the PATH. Install it and run this command again:\n  pip install {XRCG}\n"
                           f"or run it where it is installed:\n  {served}\n  {again}")  # fmt: skip
    if out.exists() and any(out.iterdir()):
        raise SettingsError(f"{out} holds files: name a new folder.")
    with _served(serve) as url:
        command = [program, "generate", *request.arguments, "--output", str(out), "--definitions", f"{url}?inline=*"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - that program
    failures = _FAILED.findall(ran.stdout + ran.stderr)
    files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    if ran.returncode or failures or not files:
        reason = "; ".join(failures[:4]) or (ran.stderr or ran.stdout).strip()[-2000:]
        raise LakehouseError(f"xrcg failed (exit code {ran.returncode}): {reason}\nIt ran: {shlex.join(command)}")
    return files


@contextmanager
def _served(command: list[str]) -> Iterator[str]:
    command = [sys.executable, "-m", "lakehouse", *command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - this program
        try:
            line = server.stdout.readline() if server.stdout else ""
            if not line:
                raise LakehouseError("`lakehouse serve` did not start.")
            yield json.loads(line)["url"]
        finally:
            server.terminate()
