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
        """Return the peaks in MiB: of the JVM, of one Python worker, of this process."""
        return {name: round(peak) for name, peak in self.peaks.items()}

    def _watch(self) -> None:
        while not self._stopped.wait(_SECONDS):
            for pid in _below(os.getpid()):
                if kind := _kind(pid):
                    self.peaks[kind] = max(self.peaks[kind], _peak(pid))


def _kind(pid: int) -> str | None:
    """Return what a process is by its command line; the name of its program is that of a thread when it was just forked."""
    if pid == os.getpid():
        return "python_driver"
    command = _read(_PROC / str(pid) / "cmdline").split("\0")
    if "pyspark.daemon" in command or "pyspark.worker" in command:
        return "python_worker"
    return "jvm" if command[0].endswith("java") else None


def _below(root: int) -> list[int]:
    """Return a process and all below it."""
    parents: dict[int, int] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (stat := _read(entry / "stat")):
            parents[int(entry.name)] = int(stat.rsplit(") ", 1)[1].split()[1])
    found = [root]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def _peak(pid: int) -> float:
    """Return the largest resident size that a process had, in MiB."""
    lines = [line.split() for line in _read(_PROC / str(pid) / "status").splitlines()]
    return next((int(words[1]) / 1024 for words in lines if words[0] == "VmHWM:"), 0.0)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # the process has ended
        return ""
