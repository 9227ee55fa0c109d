"""The documents of these tests, and the programs that work on them, run in the environment that `LAKEHOUSE_BIN` names.

`CLIENTS_ALL=1` takes the published documents next to this checkout too.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
BIN = Path(os.environ.get("LAKEHOUSE_BIN", ROOT / ".venv" / "bin"))
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
SAMPLES = ROOT.parent / "shared" / "samples"
DEMO = ROOT / "lakehouse" / "cli" / "demo"
IS_ALL = os.environ.get("CLIENTS_ALL", "") not in ("", "0")
_SHORT = ("orders", "sensors", "warehouse")

# Documents by the id of the registry that each becomes.
DOCUMENTS = {f"demo/{name}": DEMO / f"{name}.xreg.json" for name in _SHORT}
if IS_ALL:
    _FOUND = sorted([*SAMPLES.glob("codegen/*.xreg.json"), *SAMPLES.glob("feeds/*.xreg.json")])
    DOCUMENTS |= {f"{path.parent.name}/{path.name.removesuffix('.xreg.json')}": path for path in _FOUND}


def lakehouse(*arguments: object) -> str:
    """Run a command that refuses nothing but what documents hold of it."""
    command = [BIN / "python", "-m", "lakehouse", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert ran.returncode in (0, 3), ran.stderr
    return ran.stdout


@contextmanager
def serving(warehouse: Path, cache: Path, *options: str, **environment: str) -> Iterator[str]:
    """Run `lakehouse serve`, and give its URL without the last slash."""
    command = [BIN / "python", "-m", "lakehouse", "serve", "--warehouse", warehouse, "--port", "0", "--json", *options]
    environment = ENVIRONMENT | {"LAKEHOUSE_READMODEL_DIR": str(cache)} | environment
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline()
        assert line, f"no ready line, exit code {process.wait(10)}"
        yield json.loads(line)["url"].rstrip("/")
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.close()
        assert process.wait(60) == 0


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def files(place: Path) -> Iterator[str]:
    """Hand files out as they are.

    xrcg validates what it reads from a path, but not what it reads from a URL, by its own schema, which refuses `versions`
    together with `versionsurl`.
    """
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(place)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
