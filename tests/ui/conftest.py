"""A browser, and what it looks at: the pages as files behind a plain web server, and those of `lakehouse serve`."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright
from screens import MODES

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BIN = Path(os.environ.get("LAKEHOUSE_BIN", ROOT / ".venv" / "bin"))
NPM = Path(os.environ.get("UI_NODE_MODULES", HERE / "node_modules"))
_WAIT = 60_000  # ms, also for what is expected: a slow machine fails no test
expect.set_options(timeout=_WAIT)
AXE = (NPM / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Hands files out, and says nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("ui")
    command = [str(BIN / "python"), str(HERE / "prepare.py"), str(made)]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    return made


@pytest.fixture(scope="session")
def files(folder):
    """Serve the sites that are files."""
    handler = functools.partial(Quiet, directory=str(folder / "sites"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.fixture(scope="session")
def server(folder):
    """Run `lakehouse serve` over the demo."""
    command = [str(BIN / "python"), "-m", "lakehouse", "serve", "--warehouse", str(folder / "demo"), "--port", "0", "--json"]
    reported = os.environ | {"LAKEHOUSE_READMODEL_DIR": str(folder / "readmodel"), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=reported)
    line = process.stdout.readline()
    assert line, f"no ready line, exit code {process.wait(10)}"
    yield json.loads(line)["url"].rstrip("/")
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    process.stdout.close()


@pytest.fixture(params=["files", "served"])
def site(request):
    """Return the URL of the demo's first page: both ways out."""
    if request.param == "files":
        return f"{request.getfixturevalue('files')}/demo/"
    return f"{request.getfixturevalue('server')}/ui/"


@pytest.fixture(scope="session")
def chromium():
    where = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert where, "no Chromium: apt-get install chromium, or name it in CHROMIUM"
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=where, args=arguments)
        yield browser
        browser.close()


class Looked:
    """A page of the browser: what went wrong on it, and whom it asked."""

    def __init__(self, context) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(_WAIT)
        self.faults: list[str] = []
        self.asked: set[str] = set()
        self.page.on("console", lambda one: self.faults.append(one.text) if one.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda one: self.faults.append(str(one)))
        self.page.on("request", lambda one: self.asked.add(one.url.split("/")[2]))

    def grave(self) -> list[str]:
        """Let axe-core look at the page: what it finds that is serious or critical."""
        self.page.evaluate(AXE)
        found = self.page.evaluate("axe.run({ resultTypes: ['violations'] })")
        return [
            f"{one['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]


@pytest.fixture
def look(chromium):
    """Open pages in a mode; at the end nothing may have gone wrong, and nobody else been asked."""
    opened = []

    def open_page(mode: str = "desktop", **more) -> Looked:
        context = chromium.new_context(**MODES[mode], **more)
        opened.append((context, Looked(context)))
        return opened[-1][1]

    yield open_page
    faults = [fault for _, one in opened for fault in one.faults]
    asked = {host.split(":")[0] for _, one in opened for host in one.asked}
    for context, _ in opened:
        context.close()
    assert faults == []
    assert asked <= {"127.0.0.1"}
