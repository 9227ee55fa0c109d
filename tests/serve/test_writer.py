"""The process that writes for a server: who may write, batches, and what becomes of requests when it dies."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import threading
import time
from multiprocessing import Pipe
from pathlib import Path

import pytest

from lakehouse.errors import CommitLost, WarehouseError
from lakehouse.log.writerlock import hold_writer_lock, in_turn, no_turn_of_others
from lakehouse.readmodel import open_model
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.write.apply import apply
from lakehouse.serve.write.overlay import CatalogOverlay
from lakehouse.serve.writer import process
from lakehouse.serve.writer.append import DeltaAppender
from lakehouse.serve.writer.process import Batches
from lakehouse.serve.writer.wire import Announced, Done, receive_answer
from lakehouse.settings import read_settings
from serve.writing import EVENT, asks, empty_warehouse, ignore, writing

pytestmark = pytest.mark.attack

ALICE, BOB = "Basic " + base64.b64encode(b"alice:one").decode(), "Basic " + base64.b64encode(b"bob:two").decode()


@pytest.fixture
def warehouse(tmp_path):
    return empty_warehouse(tmp_path / "w").folder


@pytest.fixture
def settings(warehouse, tmp_path):
    return read_settings(warehouse=str(warehouse), readmodel_dir=str(tmp_path / "cache"))


@pytest.fixture
def batches(settings):
    model = open_model(settings)
    return Batches(model, DeltaAppender(model.location, model.settings), attempts=5)


def test_requests_that_wait_become_one_snapshot(batches):
    reported = [asks("PUT", f"/messagegroups/g/messages/m{number}", EVENT) for number in range(5)]
    bad = asks("PUT", "/messagegroups/g/messages/bad", {"envelope": 7})
    snapshot_id, results = batches.commit([*reported[:3], bad, *reported[3:]], ignore)
    assert snapshot_id == 1
    assert [isinstance(one, ProblemFound) for one in results] == [False] * 3 + [True] + [False] * 2
    with batches.model.at() as view:
        assert [one.xid for one in view.children("default", "/messagegroups/g")] == [
            f"/messagegroups/g/messages/m{n}" for n in range(5)
        ]


def test_a_request_that_cannot_be_planned_fails_alone(batches, monkeypatch):
    path = "/messagegroups/g/messages/"
    batches.commit([asks("PUT", path + "m", EVENT)], ignore)
    endless = asks("DELETE", path + "m")._replace(parameters=[("epoch", "9" * 5000)])

    def failing(overlay, write_request, settings):
        if write_request.path.endswith("/odd"):
            raise RuntimeError("odd")
        return apply(overlay, write_request, settings)

    monkeypatch.setattr(process, "apply", failing)
    _, results = batches.commit([endless, asks("PUT", path + "odd", EVENT), asks("PUT", path + "n", EVENT)], ignore)
    assert [getattr(one, "name", None) for one in results] == ["bad_request", "server_error", None]
    with batches.model.at() as view:
        assert [one.xid for one in view.children("default", "/messagegroups/g")] == [path + "m", path + "n"]


def test_what_a_request_wrote_before_it_failed_is_taken_back(batches, monkeypatch):
    def failing(*_):
        raise RuntimeError("odd")

    monkeypatch.setattr("lakehouse.serve.write.apply.write_effects", failing)
    with batches.model.at() as view:
        overlay = CatalogOverlay(view, 0)
        with pytest.raises(RuntimeError):
            apply(overlay, asks("PUT", "/messagegroups/g", {}), batches.model.settings)
        assert list(overlay.changes()) == []


def test_a_batch_in_which_nothing_is_accepted_commits_nothing(batches):
    batches.commit([asks("PUT", "/messagegroups/g", {})], ignore)
    assert batches.commit([asks("DELETE", "/messagegroups/none")], ignore)[0] == 1


def test_a_request_without_the_id_of_a_registry_commits_nothing(batches):
    nameless = asks("PUT", "/messagegroups/g", {})._replace(registryid="")
    snapshot_id, results = batches.commit([nameless], ignore)
    assert (snapshot_id, [one.name for one in results]) == (0, ["malformed_id"])


def test_a_deletion_in_an_empty_catalog_commits_nothing(batches):
    snapshot_id, results = batches.commit([asks("DELETE", "/messagegroups")], ignore)
    assert (snapshot_id, [one.shows for one in results]) == (0, ["nothing"])


def test_requests_of_a_batch_count_in_their_order(batches):
    path = "/messagegroups/g/messages/m"
    reported = [asks("PUT", path, EVENT), asks("PATCH", path, {"epoch": 1, "name": "x"}), asks("PATCH", path, {"epoch": 1})]
    _, results = batches.commit(reported, ignore)
    assert [getattr(one, "name", None) for one in results] == [None, None, "mismatched_epoch"]
    with batches.model.at() as view:
        assert view.entity("default", path + "/versions/1").epoch == 2


def test_ids_that_differ_in_letter_case_only_are_refused_in_one_batch_and_over_several(batches):
    batches.commit([asks("PUT", f"/messagegroups/g/messages/{name}", EVENT) for name in ("one", "two", "gone")], ignore)
    batches.commit([asks("DELETE", "/messagegroups/g/messages/gone")], ignore)
    names = ("ONE", "Two", "fresh", "FRESH", "Gone", "oNe")
    results = batches.commit([asks("PUT", f"/messagegroups/g/messages/{name}", EVENT) for name in names], ignore)[1]
    assert [isinstance(one, ProblemFound) for one in results] == [True, True, False, True, False, True]
    reported = f"{results[0].detail} {results[0].args}"
    assert "differs from that of /messagegroups/g/messages/one in letter case only" in reported


def test_who_asked_is_reported_of_each_entity(batches):
    from lakehouse.query.audit import changed_by

    reported = [asks("PUT", "/messagegroups/a", {}, "alice"), asks("PUT", "/messagegroups/b", {}, "bob")]
    batches.commit(reported, ignore)
    with batches.model.at() as view:
        commit = view.commit_of(1)
    assert commit["committed_by"] == "alice, bob"
    assert [changed_by(commit, "default", f"/messagegroups/{name}") for name in "ab"] == ["alice", "bob"]


def test_another_writer_that_was_first_is_planned_behind(batches, settings):
    """Both write at the same snapshot: the second looks again, and nothing is lost."""
    other_model = open_model(settings)
    other = Batches(other_model, DeltaAppender(other_model.location, settings), attempts=5)
    batches.commit([asks("PUT", "/messagegroups/g", {})], ignore)

    def come_between(ingest_id, results):
        if not came:
            came.append(ingest_id)
            other.commit([asks("PUT", "/messagegroups/g/messages/first", EVENT)], ignore)

    came = []
    snapshot_id, _ = batches.commit([asks("PUT", "/messagegroups/g/messages/second", EVENT)], come_between)
    assert snapshot_id == 3
    with batches.model.at() as view:
        assert view.entity("default", "/messagegroups/g").epoch == 3
        assert [one.xid.rsplit("/", 1)[1] for one in view.children("default", "/messagegroups/g")] == ["first", "second"]


# What an append says, and what the log says


class Faulty:
    """Appends as delta-rs does, and goes wrong the first time."""

    def __init__(self, appender, *, writes, raises, times=1):
        self.appender, self.writes, self.raises, self.left = appender, writes, raises, times

    def append(self, *reported):
        is_wrong, self.left = self.left > 0, self.left - 1
        if self.writes or not is_wrong:
            self.appender.append(*reported)
        if is_wrong and self.raises is not None:
            raise self.raises


@pytest.mark.parametrize(
    ("writes", "raises"),
    [
        (False, None),  # it says that all is well, and nothing is there
        (False, CommitLost(1)),
        (True, CommitLost(1)),  # it is there: planned again, it would be there twice
        (True, OSError("the checkpoint was not written")),
    ],
)
def test_the_log_reports_whether_a_batch_was_committed(batches, writes, raises):
    batches.appender = Faulty(batches.appender, writes=writes, raises=raises)
    snapshot_id, results = batches.commit([asks("POST", "/messagegroups/g/messages/m", EVENT)], ignore)
    assert (snapshot_id, len(results)) == (1, 1)
    with batches.model.at() as view:
        assert view.head == 1
        assert [one.xid for one in view.versions("default", "/messagegroups/g/messages/m")] == [
            "/messagegroups/g/messages/m/versions/1"
        ]


@pytest.mark.parametrize(("raises", "error"), [(None, CommitLost), (CommitLost(1), CommitLost), (OSError("disk full"), OSError)])
def test_a_batch_that_is_not_there_is_reported_so(batches, raises, error):
    batches.appender = Faulty(batches.appender, writes=False, raises=raises, times=99)
    with pytest.raises(error):
        batches.commit([asks("PUT", "/messagegroups/g", {})], ignore)
    assert answer_of(batches).status in (500, 503)
    batches.model.refresh()
    with batches.model.at() as view:
        assert view.head == 0


def answer_of(batches):
    """Return the answer that the process which writes sends."""
    ours, theirs = Pipe()
    process._commit(batches, [process.Job(asks("PUT", "/messagegroups/g", {}), theirs)])
    while isinstance(answer := receive_answer(ours), Announced):
        pass
    return answer


def test_a_batch_that_cannot_be_read_back_is_reported_so(batches, monkeypatch):
    """It may be there, so no finding says that nothing was written."""
    refresh, appended = batches.model.refresh, []

    class Reported:
        def append(self, *reported):
            appender.append(*reported)
            appended.append(reported)

    def failing(*reported):
        if appended:
            raise WarehouseError("the disk is gone")
        refresh(*reported)

    appender, batches.appender = batches.appender, Reported()
    monkeypatch.setattr(batches.model, "refresh", failing)
    monkeypatch.setattr("lakehouse.serve.writer.process._SECONDS_BETWEEN_TRIES", 0)
    problem = answer_of(batches)
    assert (problem.status, problem.name) == (503, "data_retrieval_error")
    assert "could not be read back" in problem.detail
    monkeypatch.undo()
    batches.model.refresh()
    with batches.model.at() as view:
        assert (view.head, len(appended)) == (1, 1)
    assert isinstance(answer_of(batches), Done)


# Who may write


@pytest.mark.slow
def test_pages_of_other_sites_may_not_write(warehouse, tmp_path):
    with writing(warehouse, tmp_path / "r", "--allow-origin", "https://catalog.example") as served:
        assert served.send("PUT", "/messagegroups/g", {}, Origin="https://evil.example").status == 403
        allowed = served.send("PUT", "/messagegroups/g", {}, Origin="https://catalog.example")
        assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (201, "https://catalog.example")
        assert served.send("PATCH", "/messagegroups/g", {}, Origin=served.url).status == 200
        assert "access-control-allow-origin" not in served.ask("/", Origin="https://evil.example").headers
        assert served.ask("/", Host="evil.example").status == 421  # a name that leads here by a trick


@pytest.mark.slow
def test_the_users_of_a_file_may_write_and_are_named(warehouse, tmp_path):
    from lakehouse.query.sqlserver import write_user

    users = tmp_path / "users"
    for name, password in (("alice", "one"), ("bob", "two")):
        write_user(str(users), name, password)
    with writing(warehouse, tmp_path / "r", "--users", str(users)) as served:
        assert served.send("PUT", "/messagegroups/g", {}).status == 401
        assert served.send("PUT", "/messagegroups/g", {"name": "x"}, Authorization=ALICE).status == 201
        assert served.send("PATCH", "/messagegroups/g", {"name": "y"}, Authorization=BOB).status == 200
    reported = read_settings(warehouse=str(warehouse), readmodel_dir=str(tmp_path / "cache"))
    with open_model(reported) as model, model.at() as view:
        assert [view.commit_of(number)["committed_by"] for number in (1, 2)] == ["alice", "bob"]


def test_an_address_that_others_reach_needs_users(tmp_path, warehouse):
    command = ["--host", "0.0.0.0", "--allow-anonymous", "--behind-proxy"]
    with pytest.raises(AssertionError, match="no ready line, exit code 2"), writing(warehouse, tmp_path / "r", *command):
        pass


def test_what_documents_hold_is_theirs(warehouse, tmp_path):
    from serve.served import shop

    written = empty_warehouse(tmp_path / "docs")
    written.load({"default": shop("one")})
    with writing(written.folder, tmp_path / "r") as served:
        answer = served.send("PATCH", "/messagegroups/orders", {"name": "mine"})
        assert (answer.status, answer.json["type"].endswith("#readonly")) == (400, True)
        assert answer.json["detail"].endswith(": a.json.")  # no path of the machine
        assert served.send("DELETE", "/messagegroups/orders").status == 400
        assert served.refused("PATCH", "/messagegroups/orders/messages/many", {"name": "mine"}) == (400, "readonly")
        assert served.get("/messagegroups/orders/messages/many/meta")["readonly"] is True
        assert served.get("/messagegroups/orders/messages/many/meta?doc")["readonly"] is False  # what a document may say
        # A new message in the group is allowed, and the group's epoch grows
        before = served.get("/messagegroups/orders")["epoch"]
        assert served.send("PUT", "/messagegroups/orders/messages/mine", EVENT).status == 201
        assert served.get("/messagegroups/orders/messages/mine/meta")["readonly"] is False
        assert list(served.get("/messagegroups/orders/messages?filter=meta.readonly=false")) == ["mine"]
        assert served.get("/messagegroups/orders")["epoch"] == before + 1


@pytest.mark.slow
def test_a_body_that_is_too_large_or_never_ends_is_refused(warehouse, tmp_path):
    import http.client

    with writing(warehouse, tmp_path / "r") as served:
        connection = http.client.HTTPConnection(served.address, timeout=60)
        connection.putrequest("PUT", "/messagegroups/g")
        connection.putheader("Content-Length", str(65 << 20))
        connection.endheaders()
        part = b" " * (1 << 20)
        try:
            for _ in range(65):
                connection.send(part)
        except OSError:  # it has answered, and hears no more
            pass
        assert connection.getresponse().status == 413
        connection.close()
        assert served.send("PUT", "/messagegroups/g", {}).status == 201


# What dies


def writer_of(served):
    found = subprocess.run(
        ["pgrep", "-P", str(served.process.pid), "-f", "spawn_main"], capture_output=True, text=True, check=False
    )
    return [int(one) for one in found.stdout.split()]


def test_a_writer_that_dies_is_replaced_and_no_answered_write_is_lost(warehouse, tmp_path):
    with writing(warehouse, tmp_path / "r") as served:
        served.done("PUT", "/messagegroups/g", {})
        answers, stop = {}, threading.Event()

        def write(worker):
            number = 0
            while not stop.is_set():
                number += 1
                answers[f"m{worker}.{number}"] = served.send("PUT", f"/messagegroups/g/messages/m{worker}.{number}", EVENT).status

        workers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for one in workers:
            one.start()
        for _ in range(3):
            time.sleep(2.5)
            for pid in writer_of(served):
                os.kill(pid, signal.SIGKILL)
        time.sleep(4)
        stop.set()
        for one in workers:
            one.join()
        there = served.get("/messagegroups/g/messages")
    assert {name for name, status in answers.items() if status == 201} == set(there)
    assert set(answers.values()) <= {201, 503}
    assert 201 in answers.values()


def test_the_server_is_ready_when_a_write_would_be_done(warehouse, tmp_path):
    """Without Java no writer can make a catalog: the server of one that is not there is never ready, and reads are answered."""
    with writing(tmp_path / "none", tmp_path / "n") as served:
        for _ in range(3):
            ready = served.ask("/ready")
            assert (ready.status, ready.json["status"], ready.headers["retry-after"]) == (503, "starting", "2")
            assert served.get("/")["messagegroupscount"] == 0
            time.sleep(0.5)
    with writing(warehouse, tmp_path / "r") as served:
        await_ready(served)
        (pid,) = writer_of(served)
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
            time.sleep(0.01)
        while served.ask("/ready").status == 200 and writer_of(served) in ([], [pid]):  # the server has not noticed yet
            time.sleep(0.01)
        await_ready(served)
        assert writer_of(served) != [pid]
        assert served.send("PUT", "/messagegroups/g", {}).status == 201


def await_ready(served):
    until = time.monotonic() + 60
    while served.ask("/ready").status != 200 and time.monotonic() < until:
        time.sleep(0.05)
    assert served.ask("/ready").json["status"] == "ready"


@pytest.mark.slow
@pytest.mark.parametrize(("point", "is_there"), [("before_commit", False), ("after_commit", True)])
def test_a_request_whose_writer_died_is_reported_what_became_of_it(warehouse, tmp_path, point, is_there):
    environment = {"LAKEHOUSE_CRASH_AT": point, "LAKEHOUSE_CRASH_BY": "kill"}
    with writing(warehouse, tmp_path / "r", **environment) as served:
        answer = served.send("PUT", "/messagegroups/g", {"name": "x"})
        assert answer.status == (201 if is_there else 503)
        assert served.send("GET", "/messagegroups/g").status == (200 if is_there else 404)


def test_a_server_that_is_killed_takes_its_writer_along(warehouse, tmp_path):
    with writing(warehouse, tmp_path / "r") as served:
        served.done("PUT", "/messagegroups/g", {})
        pids = writer_of(served)
        assert pids
        served.process.kill()
        served.process.wait(10)
        until = time.monotonic() + 10
        while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in pids):
            time.sleep(0.1)
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.slow
def test_two_servers_with_several_processes_lose_and_double_nothing(warehouse, tmp_path):
    with writing(warehouse, tmp_path / "a", "--workers", "2") as one, writing(warehouse, tmp_path / "b") as other:
        failed = []

        def write(served, name):
            for number in range(10):
                answer = served.send("POST", f"/messagegroups/g/messages/{name}", EVENT)
                if answer.status != 201 or answer.json["versionid"] != str(number + 1):
                    failed.append((name, number, answer.status, answer.body[:300]))

        threads = [
            threading.Thread(target=write, args=(served, f"{n}{i}")) for n, served in (("a", one), ("b", other)) for i in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []

        def counts():
            return {name: one["versionscount"] for name, one in other.get("/messagegroups/g/messages").items()}

        written = {f"{n}{i}": 10 for n in "ab" for i in range(3)}
        until = time.monotonic() + 30
        while counts() != written and time.monotonic() < until:  # what the other server wrote last is seen a little later
            time.sleep(0.2)
        assert counts() == written


# Turns


@pytest.mark.slow
def test_who_lost_a_race_is_let_through(warehouse, tmp_path):
    """While somebody holds the turn, writes wait, and reads do not."""
    with writing(warehouse, tmp_path / "r") as served:
        served.done("PUT", "/messagegroups/g", {})
        answers = []

        def write():
            answers.append(served.send("PUT", "/messagegroups/g/messages/m", EVENT).status)

        thread = threading.Thread(target=write)
        with hold_writer_lock(str(warehouse)):
            thread.start()
            thread.join(3)
            assert answers == []
            assert served.get("/messagegroups/g")["messagescount"] == 0
        thread.join(30)
        assert answers == [201]


def test_the_second_attempt_holds_the_turn_and_the_first_does_not(warehouse):
    held = []

    def attempt():
        with no_turn_of_others(str(warehouse), 0.1):
            begun = time.monotonic()
        with no_turn_of_others(str(warehouse), 0.5):
            held.append(time.monotonic() - begun >= 0.5)
        if len(held) < 3:
            raise CommitLost(len(held))
        return "done"

    assert in_turn(str(warehouse), 5, attempt) == "done"
    assert held == [False, True, True]


@pytest.mark.parametrize("where", ["s3a://bucket/w", "/nowhere/w"])
def test_there_are_no_turns_where_no_file_can_be_locked(where):
    with hold_writer_lock(where), no_turn_of_others(where, 60):
        pass


@pytest.mark.slow
def test_expectations_that_stop_an_ingest_and_no_request_are_named_at_the_start(tmp_path, capfd):
    empty_warehouse(tmp_path / "warehouse")
    suites = tmp_path / "suites"
    suites.mkdir()
    not_null = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}}
    named = [not_null | {"meta": {"name": "named", "severity": "error"}}]
    named.append(not_null | {"meta": {"name": "hint", "severity": "warning"}})
    (suites / "versions.json").write_text(json.dumps({"name": "versions", "expectations": named}))
    with writing(tmp_path / "warehouse", tmp_path / "cache", LAKEHOUSE_EXPECTATIONS_DIR=str(suites)) as served:
        served.done("PUT", "/messagegroups/mine", {})
        served.done("PUT", "/messagegroups/mine/messages/bad", EVENT)
    reported = [line for line in capfd.readouterr().err.splitlines() if "over HTTP" in line]
    said = "note: writes over HTTP do not check these expectations, ingests and `lakehouse validate` do: versions: named."
    assert reported == [said]
