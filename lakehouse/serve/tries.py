"""How often somebody may be wrong: some times at once, and then slowly."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable

_MOST_KEPT = 10_000


class Tries:
    """Counts what went wrong, by who tried; shared by threads.

    Args:
        at_once: how often one may be wrong without waiting.
        seconds: after which it may be once more.
    """

    def __init__(self, at_once: int, seconds: float) -> None:
        self.at_once = at_once
        self.seconds = seconds
        self._lock = threading.Lock()
        self._wrong: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # how many are left, and since when

    def wait(self, who: Hashable) -> float:
        """Return the seconds until somebody may try again; 0: now."""
        with self._lock:
            return max(0.0, (self._left(who) - self.at_once + 1) * self.seconds)

    def went_wrong(self, who: Hashable) -> None:
        """Count a try that was wrong."""
        with self._lock:
            self._wrong[who] = (self._left(who) + 1, time.monotonic())
            self._wrong.move_to_end(who)
            if len(self._wrong) > _MOST_KEPT:
                self._wrong.popitem(last=False)

    def _left(self, who: Hashable) -> float:
        count, since = self._wrong.get(who, (0.0, 0.0))
        return max(0.0, count - (time.monotonic() - since) / self.seconds)
