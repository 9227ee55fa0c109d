"""A history as a shell script, with the commands that a user would type."""

from __future__ import annotations

import base64
import shlex

from .documents import write
from .runs import Run
from .terms import Document


def as_script(history: list[tuple[dict[str, Document], Run]]) -> str:
    """Write a history as a shell script."""
    lines = ["mkdir -p documents/sub"]
    before: dict[str, Document] = {}
    for number, (documents, run) in enumerate(history, 1):
        lines.append(f"# step {number}")
        lines += [f"rm documents/{path}" for path in before if path not in documents]
        lines += [_written(path, one) for path, one in documents.items() if before.get(path) != one]
        before = documents
        if run.first_dry:
            lines.append(_command(run, "--dry-run"))
        if run.crash:
            lines.append(f"LAKEHOUSE_CRASH_AT={run.crash} LAKEHOUSE_CRASH_BY=kill {_command(run)}")
        lines.append(_command(run))
        if run.again:
            lines.append(_command(run))
    return "\n".join(lines)


def _written(path: str, document: Document) -> str:
    content = write(document, path)
    if path.endswith(".gz"):
        return f"base64 -d > documents/{path} <<'END'\n{base64.b64encode(content).decode()}\nEND"
    return f"cat > documents/{path} <<'END'\n{content.decode().rstrip()}\nEND"


def _command(run: Run, *also: str) -> str:
    flags = [f"--{name}" for name in ("prune", "force", "strict") if getattr(run, name)]
    source = shlex.quote(f"documents/{run.source}".rstrip("/"))
    return " ".join(["lakehouse ingest", source, "--warehouse warehouse", *flags, *also])
