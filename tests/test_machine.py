"""The short form of the stateful test: rules of Hypothesis, the same each time. The long one: `python -m tests.soak.machine`."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from soak.edits import OPERATIONS, edit_by, first_documents
from soak.machine import Machine
from soak.runs import GLOBS, POINTS, WAYS, Run
from soak.script import as_script
from soak.sessions import forget_attached
from soak.world import Broken

STEPS = 6  # of some 10 s each
_seeds = st.integers(0, 2**32 - 1)
_operations = st.lists(st.sampled_from(list(OPERATIONS)), min_size=1, max_size=4)
_runs = st.builds(
    Run, st.sampled_from(["", "", "", *GLOBS]), prune=st.booleans(), force=st.booleans(),
    strict=st.sampled_from([False, False, True]),
    first_dry=st.sampled_from([False, False, True]), again=st.booleans(), crash=st.sampled_from([None, None, None, *POINTS]),
    way=st.sampled_from(list(WAYS)),
)  # fmt: skip


@pytest.mark.parametrize("steps", [2, pytest.param(STEPS, marks=pytest.mark.slow)])
def test_a_random_history_agrees_with_the_model(spark, tmp_path, empty_warehouse, steps):
    folders = (tmp_path / str(number) for number in count())

    class Steps(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            forget_attached(spark)
            self.machine = Machine(spark, next(folders), empty_warehouse)

        @rule(operations=_operations, seed=_seeds, run=_runs)
        def edit_and_ingest(self, operations, seed, run):
            machine, random = self.machine, Random(seed)
            documents = dict(machine.documents) or first_documents(random)
            edit_by(random, documents, operations if machine.history else [])
            # A SOURCE that names nothing is an error, which is not what this is about.
            run = run if run.found(documents) else run._replace(source="")
            try:
                machine.step(documents, run)
            except Broken as error:
                raise AssertionError(f"{error}\n{as_script(machine.history)}\n{machine.as_json()}") from error

        def teardown(self):
            self.machine.close()

    # The first example of Hypothesis is its simplest, one step; no shrinking, since a step takes ten seconds.
    asked = settings(
        max_examples=2, stateful_step_count=steps, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(Steps, settings=asked)
