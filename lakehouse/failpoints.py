"""Crash points: places at which a test lets the process die, to prove that nothing is half done afterwards.

`LAKEHOUSE_CRASH_AT` names one: after_stage, before_commit, after_commit, after_project_<table>, after_load
(of a pull: all is committed, and what is known of the source is not written yet). The process raises
`CrashRequested` there, or with `LAKEHOUSE_CRASH_BY=kill` ends as by kill -9.
"""

from __future__ import annotations

import os
import signal


class CrashRequested(BaseException):
    """The crash point that the environment names was reached; nothing may handle this."""


def crash_point(name: str) -> None:
    """Die here when the environment asks for it."""
    if os.environ.get("LAKEHOUSE_CRASH_AT") != name:
        return
    if os.environ.get("LAKEHOUSE_CRASH_BY") == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise CrashRequested(name)
