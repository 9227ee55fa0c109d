"""Peak memory of the JVM and of the Python workers that this process starts, as Linux counts it for each process."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_SECONDS = 0.25
_PROC = Path("/proc")


class Memory:
    """Watches the processes below this one; the kernel keeps each one's peak, so that only short-lived ones may be missed."""

    def __init__(self) -> None:
        self.peaks = {"jvm": 0.0, "python_worker": 0.0, "python_driver": 0.0}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        if _PROC.is_dir():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def as_json(self) -> dict[str, float]:
        """Give the peaks in MiB: of the JVM, of one Python worker, of this process."""
        return {name: round(peak) for name, peak in self.peaks.items()}

    def _watch(self) -> None:
        while not self._stopped.wait(_SECONDS):
            for pid, name in _below(os.getpid()):
                kind = "python_driver" if pid == os.getpid() else "jvm" if name == "java" else "python_worker"
                self.peaks[kind] = max(self.peaks[kind], _peak(pid))


def _below(root: int) -> list[tuple[int, str]]:
    """Give a process and all below it, with the names of their programs."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (stat := _read(entry / "stat")):
            name, rest = stat.split("(", 1)[1].rsplit(") ", 1)
            parents[int(entry.name)] = (int(rest.split()[1]), name)
    found = [root]
    for pid in found:
        found.extend(child for child, (parent, _) in parents.items() if parent == pid)
    return [(pid, parents[pid][1]) for pid in found if pid in parents]


def _peak(pid: int) -> float:
    """Give the largest resident size that a process had, in MiB."""
    lines = [line.split() for line in _read(_PROC / str(pid) / "status").splitlines()]
    return next((int(words[1]) / 1024 for words in lines if words[0] == "VmHWM:"), 0.0)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # the process has ended
        return ""
