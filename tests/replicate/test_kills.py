"""kill -9 of processes that pull, push and send events: nothing acknowledged is lost, nothing is doubled, the next one completes.

The other side is a stand-in of the test, which kills the process at a request that a seeded generator chose: before the request
has an effect, or after it and before the answer. `make test` does that a few times, `make test-all` often.
"""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from serve.served import ROOT
from serve.test_roundtrip import SHOP
from serve.writing import EVENT, Writable, empty_warehouse, writing

from replicate.sources import Asked, Catalog, answering, fetch
from replicate.sources import settings_of as settings_of_copy
from replicate.test_push import REFERRING, Target, push, settings_of
from replicate.test_subscriptions import Sink, in_state, send, until

pytestmark = [pytest.mark.attack, pytest.mark.slow]


class Killer:
    """Passes requests on to a stand-in, and kills the process that sent them at some.

    Attributes:
        process: that asks; the test sets it.
        kills: how often it was killed.
    """

    def __init__(self, answers: Callable[[Asked], None], counts: Callable[[Asked], bool], seed: int) -> None:
        self.answers = answers
        self.counts = counts
        self.random = random.Random(seed)
        self.process: subprocess.Popen[Any] | None = None
        self.kills = 0
        self.left = 0
        self.wanted = 0

    def arm(self, most: int) -> None:
        """Kill at one of the next requests."""
        self.left = self.random.randint(1, most)
        self.wanted = self.kills + 1

    def __call__(self, asked: Asked) -> None:
        if self.kills >= self.wanted or not self.counts(asked):
            self.answers(asked)
            return
        self.left -= 1
        if self.left > 0:
            self.answers(asked)
            return
        if self.random.random() < 0.5:
            self._kill()
            asked.close_connection = True
            return
        give, asked.give = asked.give, lambda *_, **__: None  # it has its effect, and nobody hears of that
        self.answers(asked)
        asked.give = give
        self._kill()
        asked.close_connection = True

    def _kill(self) -> None:
        assert self.process is not None
        self.kills += 1
        self.process.kill()
        self.process.wait(30)


def started(folder: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    reported = os.environ | {"LAKEHOUSE_READMODEL_DIR": str(folder / "model"), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"} | more
    return subprocess.Popen([sys.executable, *arguments], env=reported, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_to_the_end(killer: Killer, kills: int, most: int, start: Callable[[], subprocess.Popen[str]]) -> str:
    """Start a process again and again until it was killed so often, and once more; gives what the last one wrote."""
    done = killer.kills + kills
    for _ in range(kills):
        killer.arm(most)
        killer.process = start()
        _, reported = killer.process.communicate(timeout=300)
        if killer.kills < killer.wanted:  # it ended before: there was less to do
            assert killer.process.returncode == 0, reported
            done -= 1
    killer.wanted = killer.kills
    killer.process = start()
    written, reported = killer.process.communicate(timeout=300)
    assert (killer.process.returncode, killer.kills) == (0, done), reported
    return written


GROUPS = {f"g{number:02}": {"messages": {f"m{one}": EVENT for one in range(3)}} for number in range(30)}
FETCHES = """
import sys
from pathlib import Path
from replicate.sources import fetch, settings_of
held = fetch(settings_of(Path(sys.argv[1])), sys.argv[2])
(text,) = held.documents.values()
sys.stdout.buffer.write(text)
"""


def test_a_fetch_that_is_killed_goes_on_and_asks_for_nothing_twice(tmp_path):
    kills = 12
    given = Counter[str]()

    def answer(asked: Asked) -> None:
        path = asked.path.partition("?")[0]
        root = {"specversion": "1.0-rc4", "registryid": "r", "messagegroupsurl": "x", "messagegroupscount": len(GROUPS)}
        if path == "/":
            asked.give(root)
        elif path == "/capabilities":
            asked.give({"flags": ["doc", "inline"], "pagination": False})
        elif path == "/messagegroups":
            asked.give({groupid: {"messagescount": 3} for groupid in GROUPS})
        elif asked.headers.get("If-None-Match"):
            asked.give(b"", 304, Content_Type="")
        else:
            given[path] += 1
            asked.give(GROUPS[path.rsplit("/", 1)[1]], ETag=f'"{path}"')

    killer = Killer(answer, lambda asked: asked.path.startswith("/messagegroups/"), seed=kills)

    def whole_is_refused(asked: Asked) -> None:
        asked.give({}, 406) if asked.path.startswith("/?") else killer(asked)

    with answering(whole_is_refused) as source:
        text = run_to_the_end(killer, kills, 40, lambda: started(tmp_path, "-c", FETCHES, str(tmp_path), source.url))
        again = fetch(settings_of_copy(tmp_path / "other"), source.url)
    assert killer.kills > 0
    assert json.loads(text) == again.value()
    assert list(json.loads(text)["messagegroups"]) == list(GROUPS)
    assert sum(given.values()) - len(GROUPS) <= len(GROUPS) + killer.kills  # those of `again`, and one for each kill


class Counting(Target):
    """A target that counts what it took."""

    def __init__(self) -> None:
        super().__init__()
        self.took = Counter[tuple[str, str]]()

    def answer(self, method: str, path: str, value: Any) -> tuple[int, Any]:
        status, answer = super().answer(method, path, value)
        if method != "GET" and status < 300:
            self.took[method, path] += 1
        return status, answer


def test_a_push_that_is_killed_sends_the_rest_and_nothing_twice(tmp_path):
    kills = 12
    catalog, target = Catalog(tmp_path / "warehouse"), Counting()
    document = copy.deepcopy(SHOP)
    document["messagegroups"] |= copy.deepcopy(GROUPS) | REFERRING["messagegroups"]
    document["endpoints"] |= REFERRING["endpoints"]
    catalog.load(document)
    settings = settings_of(catalog)
    killer = Killer(target, lambda asked: asked.command != "GET", seed=kills)
    with answering(killer) as server:

        def start() -> subprocess.Popen[str]:
            command = ("-m", "lakehouse", "--warehouse", str(catalog.folder), "replicate", "push", "--json", server.url)
            return started(tmp_path, *command, LAKEHOUSE_READMODEL_DIR=settings.readmodel_dir)

        for number in range(2):
            before = killer.kills
            target.took.clear()
            pushed = json.loads(run_to_the_end(killer, kills, 25, start))
            assert (pushed["refused"], killer.kills > before) == (0, True)
            assert set(target.held) == {xid for xid in catalog.held if xid.count("/") in (2, 4)}
            wills = sum(path.startswith("/endpoints/") and path.count("/") == 2 for _, path in target.took)
            assert sum(target.took.values()) <= len(target.took) + wills + 2 * (killer.kills - before)
            if number == 0:
                for groupid in list(GROUPS)[:10]:
                    del document["messagegroups"][groupid]
                for groupid in list(GROUPS)[10:]:
                    document["messagegroups"][groupid]["messages"]["m1"] = EVENT | {"description": "changed"}
                catalog.load(document)
        assert push(settings, server.url)[1:] == (0, 0, 0, [])
    changed = [target.held[f"/messagegroups/{groupid}/messages/m1"] for groupid in list(GROUPS)[10:]]
    assert {one["versions"]["1"]["description"] for one in changed} == {"changed"}


def test_events_of_a_server_that_is_killed_reach_the_sink_in_order(tmp_path):
    """CAT-177: each event at least once; one that was on its way when the server died may come once more."""
    kills = 6
    sink, acknowledged = Sink(), []
    killer = Killer(sink, lambda asked: asked.command == "POST", seed=kills)
    warehouse, options = empty_warehouse(tmp_path / "w").folder, ("--subscriptions", str(tmp_path / "kept"))

    def write(served: Writable, number: int) -> None:
        for one in range(6):
            path = f"/messagegroups/g/messages/m{number}-{one}"
            try:
                answer = served.send("PUT", path, EVENT)
            except OSError:  # killed: nobody knows
                return
            assert answer.status == 201, answer.body
            acknowledged.append(path)

    with answering(killer) as hook:
        for number in range(kills + 1):
            with writing(warehouse, tmp_path / "model", *options, "--allow-private-sinks") as served:
                killer.process = served.process
                if number == 0:
                    served.done("PUT", "/messagegroups/g", {})
                    asked = {"source": served.url, "protocol": "HTTP", "sink": hook.url}
                    status, _, reported = send(served, "POST", "/subscriptions", asked)
                    assert status == 201, reported
                    until(in_state(served, f"/subscriptions/{reported['id']}", "active"))
                if number < kills:
                    killer.arm(12)
                    write(served, number)
                    until(lambda: killer.kills == killer.wanted, 120)
                    continue
                feed = [(event["id"], event["subject"], event["type"]) for event in served.get("/events?since=0&limit=10000")]
                got = until(partial(_got, sink, feed[-1]), 120)
                for path in acknowledged:
                    assert served.get(path)["messageid"] == path.rsplit("/", 1)[1]
    first = list(dict.fromkeys(got))
    assert first == feed[len(feed) - len(first) :]
    subjects = " ".join(event[1] for event in first)
    assert [path for path in acknowledged if f"{path} " not in subjects + " "] == []
    assert len(got) - len(first) <= killer.kills == kills


def _got(sink: Sink, last: tuple[str, str, str]) -> list[tuple[str, str, str]] | None:
    """Return what a sink got, once it got the last event."""
    got = [(headers["ce-id"], headers["ce-subject"], headers["ce-type"]) for _, headers, _ in sink.got]
    return got if last in got else None


@pytest.mark.parametrize("point", ["after_stage", "before_commit", "after_commit", "after_project_messages", "after_load"])
def test_a_pull_that_is_killed_while_it_loads_is_done_once_by_the_next(point, tmp_path):
    export = json.dumps({"specversion": "1.0-rc4", "registryid": "r", "messagegroups": GROUPS}).encode()

    def answer(asked: Asked) -> None:
        flags = {"apis": ["/export"], "flags": ["doc", "inline"], "pagination": False}
        asked.give(flags if asked.path == "/capabilities" else export)

    with answering(answer) as source:
        command = ("-m", "lakehouse", "--warehouse", str(tmp_path / "w"), "replicate", "pull", "--json", source.url)
        killed = started(tmp_path, *command, LAKEHOUSE_CRASH_AT=point, LAKEHOUSE_CRASH_BY="kill")
        _, reported = killed.communicate(timeout=900)
        assert killed.returncode == -9, reported
        next_one = started(tmp_path, *command)
        written, reported = next_one.communicate(timeout=900)
        assert next_one.returncode == 0, reported
        again, reported = started(tmp_path, *command).communicate(timeout=900)
        assert json.loads(again)["ingest"] is None, reported
    is_committed = point.startswith("after_") and point != "after_stage"
    assert json.loads(written)["ingest"]["snapshot_id"] == (None if is_committed else 1)
    shown, _ = started(tmp_path, "-m", "lakehouse", "--warehouse", str(tmp_path / "w"), "snapshots", "--json").communicate()
    assert len(json.loads(shown)) == 1
