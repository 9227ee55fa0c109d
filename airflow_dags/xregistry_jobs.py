"""What the DAGs share: where things are, the assets, and the task that submits a job to Spark.

Nothing of Spark or of the product is imported here: the scheduler reads these files often, in its own environment.
Airflow says where things are; tasks read it when they run:

- connection `spark_lakehouse`, of type `spark`: the master (`local[2]`, `spark://host:7077`, `yarn`);
- variable `lakehouse`, JSON: `warehouse`, `documents` and `exports` (folders or URIs), `jobs` (the folder of the jobs), `events`
  (what `match` and `propose` watch: a Delta table or a folder), `proposals` (a folder), `source` (URL of the catalog that
  `replicate` copies), and where wanted `python` (that has the package; default `python3`), `properties_file` (Spark settings,
  such as a file of conf/) and `conf` (a settings file of the product).

- pool `lakehouse`, of one slot: what writes to the catalog runs in it, one task at a time.

Several catalogs: the environment variable `LAKEHOUSE_CATALOGS` of Airflow names them (`sales logistics`). Each has all DAGs, with
its name as suffix (`xregistry_ingest_sales`), its variable and pool (`lakehouse_sales`), and assets (`xregistry.sales.messages`).

The task `announce` updates the assets, if the change log has a commit that was not announced yet.

A job exits with 3 when something was refused: by default that is no failure of a task, since the rest is published and the
reasons are in the table `violations`. It exits with 2 when its call or its settings are wrong: that is not tried again.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from airflow.sdk import DAG, Asset, BaseOperator, ObjectStoragePath, RetryDecision, RetryPolicy
from airflow.sdk.exceptions import AirflowSkipException

try:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
except ImportError:
    SparkSubmitOperator = None

CONNECTION = "spark_lakehouse"
WRITERS = ("ingest", "validate", "maintain", "replicate")
TABLES = ("groups", "endpoints", "messages", "versions", "schemas", "schemaversions", "effective_messages")

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


class ScheduledCatalog(NamedTuple):
    """A catalog that the DAGs serve: what Airflow calls its DAGs, variable, pool and assets.

    Attributes:
        name: as `LAKEHOUSE_CATALOGS` has it; empty: the only one.
    """

    name: str = ""

    @property
    def variable(self) -> str:
        """Return the name of its variable, which is that of its pool, too."""
        return f"lakehouse_{self.name}" if self.name else "lakehouse"

    @property
    def assets(self) -> dict[str, Asset]:
        """Return its assets by table."""
        prefix = f"xregistry.{self.name}" if self.name else "xregistry"
        names = ("changes", *TABLES)
        return {table: Asset(name=f"{prefix}.{table}", uri=f"xregistry://{self.variable}/{table}") for table in names}

    def dag(self, job: str, *, hours: int, minutes: int = 1, **options: Any) -> DAG:
        """Make the DAG of a job.

        Args:
            job: ingest, export, maintain, match, propose or replicate.
            hours: a task is ended after these.
            minutes: between a failure and the next try.
            options: what else the DAG is made with.
        """
        times = {"retry_delay": timedelta(minutes=minutes), "execution_timeout": timedelta(hours=hours)}
        return DAG(
            f"xregistry_{job}_{self.name}" if self.name else f"xregistry_{job}",
            start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
            default_args={"retries": 2, **times},
            **(SHARED | ({"tags": [*SHARED["tags"], self.name]} if self.name else {}) | options),
        )

    def submit(self, job: str) -> BaseOperator:
        """Make the task that submits a job: with the Spark provider's operator where that is installed, else `spark-submit`."""
        places = f"var.json.{self.variable}"
        python = f"{{{{ {places}.get('python', 'python3') }}}}"
        environment = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        options = {"retry_policy": UsageErrorPolicy()} | ({"pool": self.variable} if job in WRITERS else {})
        if SparkSubmitOperator is not None:
            return SparkSubmitOperator(
                task_id=job,
                conn_id=CONNECTION,
                name=f"xregistry-{job}",
                application=f"{{{{ {places}.jobs }}}}/{job}.py",
                application_args=f"{{{{ arguments('{job}', params, {places}) }}}}",
                properties_file=f"{{{{ {places}.get('properties_file') }}}}",
                env_vars=environment,
                **options,
            )
        from airflow.providers.standard.operators.bash import BashOperator  # noqa: PLC0415

        return BashOperator(
            task_id=job,
            bash_command=f"{{{{ submit_command('{job}', params, {places}, conn.{CONNECTION}.host) }}}}",
            env=environment,
            append_env=True,
            **options,
        )

    def announce(self) -> BaseOperator:
        """Make the task that updates the assets after a job that writes: it is skipped when nothing was published since."""
        from airflow.providers.standard.operators.python import PythonOperator  # noqa: PLC0415

        return PythonOperator(
            task_id="announce",
            python_callable=announce_commit,
            op_kwargs={"warehouse": f"{{{{ var.json.{self.variable}.warehouse }}}}", "catalog": self.name},
            inlets=[self.assets["changes"]],
            outlets=list(self.assets.values()),
        )


def catalogs_named(names: str) -> list[ScheduledCatalog]:
    """Return the catalogs that the environment variable `LAKEHOUSE_CATALOGS` names; one without a name if it is empty.

    Raises:
        ValueError: a name is no part of a variable's name in a template; or it occurs twice.
    """
    found = names.replace(",", " ").split()
    wrong = [name for name in found if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or found.count(name) > 1]
    if wrong:
        raise ValueError(f"LAKEHOUSE_CATALOGS: {wrong[0]!r} is no name of lower-case letters, digits and _, or occurs twice")
    return [ScheduledCatalog(name) for name in found] or [ScheduledCatalog()]


CATALOGS = catalogs_named(os.environ.get("LAKEHOUSE_CATALOGS", ""))


def announce_commit(warehouse: str, catalog: str = "", **context: Any) -> None:
    """Update the assets of a catalog, and keep the commit that was announced with the event.

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
    assets = ScheduledCatalog(catalog).assets
    events = context["inlet_events"][assets["changes"]]
    if commit is not None and len(events) and events[-1].extra == announced:
        raise AirflowSkipException(f"nothing was published since commit {commit} of the change log")
    for asset in assets.values():
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
