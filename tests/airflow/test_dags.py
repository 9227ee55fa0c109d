"""The DAGs, run for real on the demo documents; what decides is what the tables hold afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError
from deltalake import DeltaTable
from places import make_places

FOLDER = Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
AIRFLOW = Path(sys.executable).with_name("airflow")
only_in_all = pytest.mark.skipif("AIRFLOW_ALL" not in os.environ, reason="minutes: `make airflow-test-all` runs it")


@pytest.fixture(scope="session")
def bag():
    return DagBag(str(FOLDER))


def rows(places, table):
    return DeltaTable(f"{places['warehouse']}/{table}").to_pyarrow_table().to_pylist()


def snapshots(places):
    return [json.loads(row["body"]) for row in rows(places, "changes") if row["kind"] == "snapshot"]


def states(run):
    return {task.task_id: (str(task.state), task.try_number) for task in run.get_task_instances()}


def drivers(places):
    """Find the Python processes of jobs that work on the test's warehouse."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it has just ended
            if places["warehouse"] in command and "java" in command[0]:
                found.append(int(entry.name))
    return found


def wait_for(condition, seconds=180):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen")


def staged(places):
    return list(Path(places["warehouse"], "_stage").glob("*/*.parquet"))


def test_all_dags_are_read_without_spark_and_without_the_product(bag):
    assert bag.import_errors == {}
    assert set(bag.dags) == {
        "xregistry_ingest",
        "xregistry_export",
        "xregistry_maintain",
        "xregistry_match",
        "xregistry_propose",
        "xregistry_replicate",
    }
    assert not [name for name in ("pyspark", "lakehouse", "delta") if name in sys.modules]
    for dag in bag.dags.values():
        assert dag.max_active_runs == 1
        assert not dag.catchup
        assert all(param.description for param in map(dag.params.get_param, dag.params))


def test_without_the_provider_spark_submit_is_called_by_a_shell():
    code = (
        f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n"
        "sys.modules['airflow.providers.apache.spark.operators.spark_submit'] = None\n"
        "from airflow.dag_processing.dagbag import DagBag\n"
        f"bag = DagBag({str(FOLDER)!r})\n"
        "print(bag.import_errors, sorted({type(task).__name__ for dag in bag.dags.values() for task in dag.tasks}))"
    )
    reported = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert reported.stdout.splitlines()[-1] == "{} ['BashOperator', 'PythonOperator']"


def test_arguments_are_those_of_the_command():
    from xregistry_jobs import arguments, submit_command

    places = {"warehouse": "s3a://b/w", "documents": "/d o c", "exports": "/x", "jobs": "/jobs", "conf": "/c.toml"}
    wanted = {"registry_from": "folder", "prune": True, "strict": False, "sources": []}
    reported = "--json --warehouse s3a://b/w --conf /c.toml --registry-from folder --prune --exit-zero --"
    assert arguments("ingest", wanted, places) == [*reported.split(), "/d o c"]
    assert "--exit-zero" not in arguments("validate", {"fail_when_refused": True}, places)
    assert arguments("export", {"select": ["/a", "/b"], "split": "group"}, places)[-7:] == [
        "--select", "/a", "--select", "/b", "--replace", "--out", "/x/by-group/"
    ]  # fmt: skip
    assert arguments("export", {}, places)[-3:] == ["--replace", "--out", "/x/registries/"]
    assert arguments("export", {"registry": "r"}, places)[-4:] == ["--registry", "r", "--out", "/x/catalog.json"]
    assert arguments("export", {"split": "group", "out": "/mine/"}, places)[-2:] == ["--out", "/mine/"]
    proposed = {"events": "/e", "no_values": True, "registry": "r"}
    assert arguments("propose", proposed, places | {"proposals": "/p"})[5:] == [
        "--registry", "r", "--no-values", "--out", "/p", "--available-now", "--", "/e"
    ]  # fmt: skip
    copied = {"group": ["a"], "into": "r", "force": True}
    assert arguments("replicate", copied, places | {"source": "https://c.example/"})[5:] == [
        "pull", "--into", "r", "--force", "--exit-zero", "--group", "a", "--", "https://c.example/"
    ]  # fmt: skip
    command = submit_command("ingest", {}, places, "local[2]")
    assert command.startswith("exec spark-submit --master 'local[2]' /jobs/ingest.py --json")
    assert command.endswith("-- '/d o c'")


def test_what_writes_has_one_pool(bag):
    pools = {task.task_id: task.pool for dag in bag.dags.values() for task in dag.tasks}
    assert {job for job, pool in pools.items() if pool == "lakehouse"} == {"ingest", "validate", "maintain", "replicate"}
    assert set(pools) > {"export", "match", "propose"}


@pytest.fixture
def two_catalogs(monkeypatch):
    monkeypatch.setenv("LAKEHOUSE_CATALOGS", "sales, logistics")
    monkeypatch.delitem(sys.modules, "xregistry_jobs", raising=False)
    yield DagBag(str(FOLDER))
    sys.modules.pop("xregistry_jobs", None)


def test_each_catalog_has_its_dags_pool_and_assets(bag, two_catalogs):
    assert two_catalogs.import_errors == {}
    assert set(two_catalogs.dags) == {f"{dag}_{name}" for dag in bag.dags for name in ("sales", "logistics")}
    for name, dag in two_catalogs.dags.items():
        catalog = name.rpartition("_")[2]
        alone = bag.dags[name.removesuffix(f"_{catalog}")]
        assert dag.tags == {"xregistry", catalog}
        assert [task.task_id for task in dag.tasks] == [task.task_id for task in alone.tasks]
        for task, same in zip(dag.tasks, alone.tasks, strict=True):
            assert (task.pool, task.retries) == (same.pool.replace("lakehouse", f"lakehouse_{catalog}"), same.retries)
            uris = [asset.uri for asset in task.outlets]
            assert uris == [asset.uri.replace("lakehouse", f"lakehouse_{catalog}") for asset in same.outlets]
    waits = two_catalogs.dags["xregistry_match_sales"].timetable.asset_condition
    assert [asset.name for asset in waits.objects] == ["xregistry.sales.changes"]


@pytest.mark.parametrize("names", ["Sales", "a a", "a-b", "1st", "x') }}"])
def test_names_of_catalogs_go_into_templates(names):
    from xregistry_jobs import catalogs_named

    with pytest.raises(ValueError, match="LAKEHOUSE_CATALOGS"):
        catalogs_named(names)


def test_one_catalog_is_loaded_and_the_other_is_not(two_catalogs, places, tmp_path_factory, properties, monkeypatch):
    other = make_places(tmp_path_factory.mktemp("logistics"), properties)
    monkeypatch.delenv("AIRFLOW_VAR_LAKEHOUSE")
    monkeypatch.setenv("AIRFLOW_VAR_LAKEHOUSE_SALES", json.dumps(places))
    monkeypatch.setenv("AIRFLOW_VAR_LAKEHOUSE_LOGISTICS", json.dumps(other))
    before = asset_events()
    run = two_catalogs.dags["xregistry_ingest_sales"].test(mark_success_pattern="validate|export")
    assert states(run)["ingest"] == states(run)["announce"] == ("success", 1)
    assert len(snapshots(places)) == 1
    assert not Path(other["warehouse"]).exists()
    updated = {name.rpartition(".")[0] for name, count in asset_events().items() if count != before.get(name)}
    assert updated == {"xregistry.sales"}


@pytest.mark.parametrize(
    ("message", "action"),
    [
        ("Cannot execute: spark-submit job.py. Error code is: 2.", "fail"),
        ("Cannot execute: spark-submit job.py. Error code is: 1. Kubernetes spark exit code is: 2", "fail"),
        ("Bash command failed. The command returned a non-zero exit code 2.", "fail"),
        ("Bash command failed. The command returned a non-zero exit code 137.", "default"),
        ("Cannot execute: spark-submit job.py. Error code is: 1.", "default"),
    ],
)
def test_exit_code_2_is_not_tried_again(message, action):
    from xregistry_jobs import UsageErrorPolicy

    assert UsageErrorPolicy().evaluate(RuntimeError(message), 1, 2).action.value == action


@pytest.mark.parametrize("shell", [False, True], ids=["operator", "shell"])
def test_a_wrong_setting_fails_at_the_first_try(places, monkeypatch, shell):
    if shell:
        monkeypatch.setitem(sys.modules, "airflow.providers.apache.spark.operators.spark_submit", None)
    monkeypatch.delitem(sys.modules, "xregistry_jobs", raising=False)
    monkeypatch.setenv("AIRFLOW_VAR_LAKEHOUSE", json.dumps(places | {"conf": "/no/such/file.toml"}))
    run = DagBag(str(FOLDER)).dags["xregistry_ingest"].test()
    assert states(run)["ingest"] == ("failed", 1)
    assert not Path(places["warehouse"]).exists()


def test_a_wrong_parameter_fails_before_any_task(bag, places):
    with pytest.raises(ParamValidationError):
        bag.dags["xregistry_ingest"].test(run_conf={"prune": "perhaps"})
    assert not Path(places["warehouse"]).exists()


def test_ingest_validate_export(bag, loaded, monkeypatch):
    monkeypatch.setenv("AIRFLOW_VAR_LAKEHOUSE", json.dumps(loaded))
    run = bag.dags["xregistry_ingest"].test()
    assert states(run) == dict.fromkeys(("ingest", "announce", "validate", "export"), ("success", 1))
    assert len(snapshots(loaded)) == 1
    messages = {row["xid"] for row in rows(loaded, "messages")}
    assert messages >= {"/messagegroups/shop.orders/messages/shop.orders.OrderPlaced"}
    assert "MSG-037" in {row["rule_id"] for row in rows(loaded, "violations")}
    groups = json.loads(Path(loaded["exports"], "registries", "default.json").read_text())["messagegroups"]
    written = {message["xid"] for group in groups.values() for message in group["messages"].values()}
    assert written == {xid for xid in messages if xid.startswith("/messagegroups/")}
    assert asset_events().keys() >= {"xregistry.changes", "xregistry.messages", "xregistry.effective_messages"}


def test_replicate(bag, loaded, places, monkeypatch):
    """A catalog that is served is copied; a second run finds nothing new, and commits nothing."""
    bin_folder = Path(os.environ["PATH"].split(os.pathsep)[0])
    command = [bin_folder / "python", "-m", "lakehouse", "--warehouse", loaded["warehouse"], "serve", "--port", "0", "--json"]
    server = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)
    try:
        url = json.loads(server.stdout.readline())["url"]
        for _ in range(2):
            run = bag.dags["xregistry_replicate"].test(run_conf={"source": url})
            assert states(run)["replicate"][0] == "success"
    finally:
        server.terminate()
        server.wait(60)
        server.stdout.close()
    assert len(snapshots(places)) == 1
    copied = {(row["xid"], row["content_hash"]) for row in rows(places, "messages")}
    assert copied == {(row["xid"], row["content_hash"]) for row in rows(loaded, "messages")}


def test_maintain_and_export(bag, loaded, monkeypatch):
    monkeypatch.setenv("AIRFLOW_VAR_LAKEHOUSE", json.dumps(loaded))
    before = len(DeltaTable(f"{loaded['warehouse']}/messages").history())
    assert states(bag.dags["xregistry_maintain"].test()) == {"maintain": ("success", 1)}
    assert len(DeltaTable(f"{loaded['warehouse']}/messages").history()) > before
    for wanted in ({}, {"select": ["/messagegroups/shop.orders"]}):  # the second takes the place of the first
        run = bag.dags["xregistry_export"].test(run_conf=wanted)
        assert states(run) == {"export": ("success", 1)}
    found = [json.loads(path.read_text()) for path in Path(loaded["exports"], "by-group").glob("**/*.json")]
    messages = [m for one in found for group in one.get("messagegroups", {}).values() for m in group["messages"].values()]
    assert messages
    assert not [message for message in messages if "basemessage" in message]


@only_in_all
def test_match_and_propose(bag, loaded, tmp_path, monkeypatch):
    landed = str(Path(os.environ["PYTHONPATH"], "lakehouse", "cli", "demo", "landed"))
    places = loaded | {"events": landed, "proposals": str(tmp_path)}
    monkeypatch.setenv("AIRFLOW_VAR_LAKEHOUSE", json.dumps(places))
    for _ in range(2):  # the second finds no event that is new
        assert states(bag.dags["xregistry_match"].test()) == {"match": ("success", 1)}
    assert states(bag.dags["xregistry_propose"].test()) == {"propose": ("success", 1)}
    proposed = [json.loads(path.read_text()) for path in tmp_path.glob("**/*.json")]
    assert any("messagegroups" in document for document in proposed), list(tmp_path.rglob("*"))


def asset_events():
    """Return how many events each asset has had."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session

    with create_session() as session:
        events = session.query(AssetModel.name).join(AssetEvent, AssetEvent.asset_id == AssetModel.id)
        return dict(Counter(name for (name,) in events))


class EventsByName(dict):
    """Asset events as Airflow hands them to a task: by asset."""

    def __getitem__(self, asset):
        return super().__getitem__(asset.name)


def test_assets_are_updated_when_something_was_published(tmp_path):
    from airflow.sdk.exceptions import AirflowSkipException
    from xregistry_jobs import CATALOGS, announce_commit

    assets = CATALOGS[0].assets

    log = tmp_path / "changes" / "_delta_log"
    log.mkdir(parents=True)
    events = []
    inlets = EventsByName({assets["changes"].name: events})
    seen = []
    for number, commit in enumerate(
        ('{"add":{"dataChange":true}}', None, '{"add":{"dataChange":false}}', '{"add":{"dataChange":true}}')
    ):
        if commit:
            (log / f"{number:020}.json").write_text(commit)
        outlets = EventsByName({asset.name: SimpleNamespace(extra=None) for asset in assets.values()})
        try:
            announce_commit(str(tmp_path), inlet_events=inlets, outlet_events=outlets)
        except AirflowSkipException:
            seen.append("skipped")
        else:
            events.append(outlets[assets["changes"]])
            seen.append(outlets[assets["messages"]].extra["commit"])
    assert seen == ["00000000000000000000", "skipped", "skipped", "00000000000000000003"]


@only_in_all
def test_a_driver_that_is_killed_is_tried_again_and_one_snapshot_comes_of_it(bag, places, monkeypatch):
    killed = []

    def kill_the_first():
        wait_for(lambda: staged(places))
        for process in drivers(places):
            os.kill(process, signal.SIGKILL)
            killed.append(process)

    monkeypatch.setattr(bag.dags["xregistry_ingest"].get_task("ingest"), "retry_delay", timedelta(seconds=1))
    killer = Thread(target=kill_the_first)
    killer.start()
    run = bag.dags["xregistry_ingest"].test(mark_success_pattern="validate|export")
    killer.join()
    assert killed
    assert states(run)["ingest"] == ("success", 2)
    assert len(snapshots(places)) == 1


@only_in_all
def test_airflow_is_killed_its_driver_lives_on_and_one_snapshot_comes_of_both(bag, places):
    command = [AIRFLOW, "dags", "test", "--mark-success-pattern", "validate|export", "xregistry_ingest"]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (orphan,) = wait_for(lambda: drivers(places))
    first.kill()
    first.wait()
    assert drivers(places) == [orphan]
    run = bag.dags["xregistry_ingest"].test(mark_success_pattern="validate|export")
    assert states(run)["ingest"] == ("success", 1)
    wait_for(lambda: not drivers(places))
    assert len(snapshots(places)) == 1
    assert len({row["xid"] for row in rows(places, "messages")}) == len(rows(places, "messages")) == 22
