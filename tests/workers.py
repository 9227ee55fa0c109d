"""Which worker of pytest-xdist runs which file."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class FromBothEnds(LoadFileScheduling):
    """One worker takes files from the front of the list, where those that use Spark are; all others take from its end.

    So Spark starts, warms up and loads the catalogs that tests share once, while other tests run. Who is done first helps.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node is not self.nodes[0]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
