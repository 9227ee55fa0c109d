"""What the DAGs share: where things are, the assets, and the task that submits a job to Spark.

Nothing of Spark or of the product is imported here: the scheduler reads these files often, in its own environment.
Airflow says where things are; tasks read it when they run:

- connection `spark_lakehouse`, of type `spark`: the master (`local[2]`, `spark://host:7077`, `yarn`);
- variable `lakehouse`, JSON: `warehouse`, `documents` and `exports` (folders or URIs), `jobs` (the folder of the jobs), `events`
  (what `match` and `propose` watch: a Delta table or a folder), `proposals` (a folder), `source` (URL of the catalog that
  `replicate` copies), and where wanted `python` (that has the package; default `python3`), `properties_file` (Spark settings,
  such as a file of conf/) and `conf` (a settings file of the product).

- pool `lakehouse`, of one slot: what writes to the catalog runs in it, one task at a time.

The task `announce` updates the assets, if the change log has a commit that was not announced yet.

A job exits with 3 when something was refused: by default that is no failure of a task, since the rest is published and the
reasons are in the table `violations`. It exits with 2 when its call or its settings are wrong: that is not tried again.
"""

from __future__ import annotations

import logging
import re
import shlex
from typing import Any

from airflow.sdk import Asset, BaseOperator, ObjectStoragePath, RetryDecision, RetryPolicy
from airflow.sdk.exceptions import AirflowSkipException

try:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
except ImportError:
    SparkSubmitOperator = None

CONNECTION = "spark_lakehouse"
POOL = "lakehouse"
WRITERS = ("ingest", "validate", "maintain", "replicate")
TABLES = ("groups", "endpoints", "messages", "versions", "schemas", "schemaversions", "effective_messages")
ASSETS = {name: Asset(name=f"xregistry.{name}", uri=f"xregistry://lakehouse/{name}") for name in ("changes", *TABLES)}

_FLAGS = {
    "ingest": ("prune", "force", "strict"),
    "validate": (),
    "export": ("flat", "source"),
    "maintain": ("dry_run", "full"),
    "match": (),
    "propose": ("no_values",),
    "replicate": ("force", "strict"),
}
_VALUES = {
    "ingest": ("registry", "registry_from", "dialect"),
    "validate": (),
    "export": ("registry", "split", "at", "base_url"),
    "maintain": (),
    "match": ("registry", "endpoint", "into"),
    "propose": ("registry",),
    "replicate": ("into", "protocol", "authority"),
}


def arguments(job: str, params: Any, places: dict[str, str]) -> list[str]:
    """Return the arguments of a job as its command expects them.

    Args:
        job: ingest, validate, export, maintain, match, propose or replicate.
        params: those of the run.
        places: the variable `lakehouse`.
    """
    args = ["--json", "--warehouse", places["warehouse"]]
    if places.get("conf"):
        args += ["--conf", places["conf"]]
    if job == "replicate":
        args.append("pull")
    for name in _VALUES[job]:
        if params.get(name):
            args += [f"--{name.replace('_', '-')}", str(params[name])]
    args += [f"--{name.replace('_', '-')}" for name in _FLAGS[job] if params.get(name)]
    if job in ("ingest", "validate", "replicate") and not params.get("fail_when_refused"):
        args.append("--exit-zero")
    if job == "export":
        for xid in params.get("select") or []:
            args += ["--select", xid]
        args += ["--out", params["out"]] if params.get("out") else _usual_target(params, places["exports"])
    if job == "match":
        args += ["--available-now", "--", params.get("events") or places["events"]]
    if job == "propose":
        out = params.get("out") or places["proposals"]
        args += ["--out", out, "--available-now", "--", params.get("events") or places["events"]]
    if job == "replicate":
        for group in params.get("group") or []:
            args += ["--group", group]
        args += ["--", params.get("source") or places["source"]]
    if job == "ingest":
        args += ["--", *(params.get("sources") or [places["documents"]])]
    return args


def _usual_target(params: Any, exports: str) -> list[str]:
    """Return the target of an export whose run names none: always the same, where it replaces the earlier export."""
    if params.get("split"):
        return ["--replace", "--out", f"{exports}/by-group/"]
    if params.get("registry") or params.get("select"):
        return ["--out", f"{exports}/catalog.json"]
    return ["--replace", "--out", f"{exports}/registries/"]


def submit_command(job: str, params: Any, places: dict[str, str], master: str) -> str:
    """Return the shell command that submits a job."""
    command = ["spark-submit", "--master", master]
    if places.get("properties_file"):
        command += ["--properties-file", places["properties_file"]]
    return "exec " + shlex.join([*command, f"{places['jobs']}/{job}.py", *arguments(job, params, places)])


class UsageErrorPolicy(RetryPolicy):
    """Retries of a job: none when it exits with 2, since its call or its settings are wrong and stay so."""

    def evaluate(self, exception: BaseException, try_number: int, max_tries: int, context: Any = None) -> RetryDecision:
        """Return whether a task that failed is tried again, by the exit code in the message of its operator."""
        codes = re.findall(r"(?i)\b(?:error|exit) code(?: is)?:? (\d+)", str(exception))
        if "2" in codes:
            return RetryDecision.fail("exit code 2: the call or the settings are wrong")
        return RetryDecision.default()


def submit(job: str, **options: Any) -> BaseOperator:
    """Make the task that submits a job: with the Spark provider's operator where it is installed, else with `spark-submit`."""
    python = "{{ var.json.lakehouse.get('python', 'python3') }}"
    environment = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    options |= {"retry_policy": UsageErrorPolicy()} | ({"pool": POOL} if job in WRITERS else {})
    if SparkSubmitOperator is not None:
        return SparkSubmitOperator(
            task_id=job,
            conn_id=CONNECTION,
            name=f"xregistry-{job}",
            application=f"{{{{ var.json.lakehouse.jobs }}}}/{job}.py",
            application_args=f"{{{{ arguments('{job}', params, var.json.lakehouse) }}}}",
            properties_file="{{ var.json.lakehouse.get('properties_file') }}",
            env_vars=environment,
            **options,
        )
    from airflow.providers.standard.operators.bash import BashOperator  # noqa: PLC0415

    return BashOperator(
        task_id=job,
        bash_command=f"{{{{ submit_command('{job}', params, var.json.lakehouse, conn.{CONNECTION}.host) }}}}",
        env=environment,
        append_env=True,
        **options,
    )


def announce() -> BaseOperator:
    """Make the task that updates the assets after a job that writes: it is skipped when nothing was published since."""
    from airflow.providers.standard.operators.python import PythonOperator  # noqa: PLC0415

    return PythonOperator(
        task_id="announce",
        python_callable=announce_commit,
        op_kwargs={"warehouse": "{{ var.json.lakehouse.warehouse }}"},
        inlets=[ASSETS["changes"]],
        outlets=list(ASSETS.values()),
    )


def announce_commit(warehouse: str, **context: Any) -> None:
    """Update the assets, and keep the commit that was announced with the event.

    Where this worker cannot read the warehouse, they are updated after each run.

    Raises:
        AirflowSkipException: the newest commit was announced already.
    """
    try:
        commit = newest_commit(warehouse)
    except (ImportError, ValueError) as error:  # Airflow has no provider for this store
        logging.getLogger(__name__).warning("assets are updated after each run, since %s cannot be read: %s", warehouse, error)
        commit = None
    announced = {"warehouse": warehouse, "commit": commit}
    events = context["inlet_events"][ASSETS["changes"]]
    if commit is not None and len(events) and events[-1].extra == announced:
        raise AirflowSkipException(f"nothing was published since commit {commit} of the change log")
    for asset in ASSETS.values():
        context["outlet_events"][asset].extra = announced


def newest_commit(warehouse: str) -> str | None:
    """Return the number of the newest commit of the change log that added rows, and not only compacted files; None: no log."""
    log = ObjectStoragePath(re.sub(r"^s3a:", "s3:", warehouse)) / "changes" / "_delta_log"
    if not log.exists():
        return None
    commits = sorted((path for path in log.iterdir() if re.fullmatch(r"\d{20}\.json", path.name)), key=lambda path: path.name)
    adding = (path.stem for path in reversed(commits) if '"dataChange":true' in path.read_text())
    return next(adding, commits[-1].stem if commits else None)


# What each DAG of the folder is made with: templates give values, not only text, and know the functions above.
SHARED: dict[str, Any] = {
    "catchup": False,
    "max_active_runs": 1,
    "render_template_as_native_obj": True,
    "user_defined_macros": {"arguments": arguments, "submit_command": submit_command},
    "tags": ["xregistry"],
}
