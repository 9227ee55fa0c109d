"""Documents that writers stored, in a browser: none of them runs on the origin of the server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(os.environ.get("LAKEHOUSE_BIN", ROOT / ".venv" / "bin"))

PREPARE = """
import sys
from pathlib import Path
sys.path.insert(0, "tests")
from serve.writing import empty_warehouse
empty_warehouse(Path(sys.argv[1]))
"""
WRITES = "fetch('/messagegroups/written', {method: 'PUT', body: '{}'})"
DOCUMENTS = {
    "inline": ("text/html", f"<script>{WRITES}</script>"),
    "picture": ("image/svg+xml", f'<svg xmlns="http://www.w3.org/2000/svg"><script>{WRITES}</script></svg>'),
    "xml": ("application/xml", f'<html xmlns="http://www.w3.org/1999/xhtml"><script>{WRITES}</script></html>'),
    "script": ("text/plain", WRITES),
}


@pytest.fixture(scope="module")
def writable(tmp_path_factory):
    """Run `lakehouse serve --writable` over an empty catalog, with documents in it that are scripts."""
    folder = tmp_path_factory.mktemp("written")
    reported = os.environ | {"LAKEHOUSE_READMODEL_DIR": str(folder / "readmodel"), "PYTHONPATH": str(ROOT)}
    reported |= {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}  # the entity tables do not follow; the log and the read model do
    subprocess.run([str(BIN / "python"), "-c", PREPARE, str(folder / "w")], check=True, cwd=ROOT)
    command = [str(BIN / "python"), "-m", "lakehouse", "serve", "--warehouse", str(folder / "w"), "--port", "0", "--json"]
    process = subprocess.Popen([*command, "--writable"], stdout=subprocess.PIPE, text=True, env=reported)
    line = process.stdout.readline()
    assert line, f"no ready line, exit code {process.wait(10)}"
    url = json.loads(line)["url"].rstrip("/")
    for name, (contenttype, text) in DOCUMENTS.items():
        asked = urllib.request.Request(f"{url}/schemagroups/g/schemas/{name}", text.encode(), {"Content-Type": contenttype})
        asked.method = "PUT"
        with urllib.request.urlopen(asked) as answer:
            assert answer.status == 201
    yield url
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    process.stdout.close()


def groups(url: str) -> list[str]:
    with urllib.request.urlopen(f"{url}/messagegroups") as answer:
        return list(json.load(answer))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_saved_and_runs_nothing(writable, chromium, name):
    context = chromium.new_context(accept_downloads=True)
    page = context.new_page()
    with page.expect_download() as download:
        page.goto(f"{writable}/ui/")
        page.evaluate("path => { location.href = path }", f"/schemagroups/g/schemas/{name}")
    assert download.value.suggested_filename.startswith(name)
    page.wait_for_timeout(500)
    assert groups(writable) == []
    context.close()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_where_it_is_shown_all_the_same_its_script_does_not_run(writable, chromium, name):
    """Show documents as a browser would that knows no `attachment`: the policy alone keeps the script from running."""
    context = chromium.new_context()
    page = context.new_page()

    def shown(route):
        answer = route.fetch()
        route.fulfill(response=answer, headers={k: v for k, v in answer.headers.items() if k != "content-disposition"})

    page.route("**/schemagroups/**", shown)
    page.goto(f"{writable}/schemagroups/g/schemas/{name}")
    page.wait_for_timeout(500)
    assert groups(writable) == []
    assert page.evaluate("self.origin") == "null"
    context.close()
