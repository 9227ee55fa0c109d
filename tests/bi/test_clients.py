"""Clients of the SQL server: PyHive, SQLAlchemy and Apache Superset; what decides is the rows that they got."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from ports import free_port, wait_for_port
from pyhive import hive
from sqlalchemy import create_engine, inspect, text

ROOT = Path(__file__).parents[2]
PUBLIC = Path(sys.executable).parent
PASSWORD = secrets.token_hex(8)
FAMILIES = "SELECT protocol_family, count(*) AS n FROM flat_messages GROUP BY 1"


@pytest.fixture(scope="module")
def expected(rows):
    return Counter(row["protocol_family"] for row in rows["effective_messages"])


def test_pyhive_reads_what_other_readers_read(port, rows, expected):
    cursor = hive.connect("127.0.0.1", port, username="me", database="xregistry").cursor()
    cursor.execute("SHOW TABLES")
    assert {name for _, name, _ in cursor.fetchall()} >= {
        "messages",
        "flat_messages",
        "endpoint_messages",
        "dictionary",
        "dim_messages",
    }
    cursor.execute("SELECT xid FROM messages")
    assert {xid for (xid,) in cursor.fetchall()} == {row["xid"] for row in rows["messages"]}
    cursor.execute(FAMILIES)
    assert dict(cursor.fetchall()) == expected
    cursor.execute("SELECT count(*) FROM messages VERSION AS OF 0")
    assert cursor.fetchall() == [(0,)]
    cursor.execute("SELECT endpoint_xid, messageid FROM endpoint_messages WHERE protocol_family = 'KAFKA'")
    assert ("/endpoints/shop.orders.kafka.consumer", "shop.orders.OrderPlaced") in cursor.fetchall()


def test_sqlalchemy_lists_columns_and_the_dictionary_reports_their_comments(port):
    engine = create_engine(f"hive://me@127.0.0.1:{port}/xregistry")
    columns = {column["name"]: str(column["type"]).upper() for column in inspect(engine).get_columns("flat_messages")}
    assert columns["xid"] == "VARCHAR" or "STRING" in columns["xid"]
    assert {"ce_type", "protocol_family", "attributes"} <= set(columns)
    with engine.connect() as connection:
        reported = connection.execute(
            text("SELECT comment FROM dictionary WHERE table_name = 'flat_messages' AND column_name = 'xid'")
        )
        assert reported.fetchall() == [("XID of the message",)]
        labels = connection.execute(text("SELECT labels FROM dim_messages WHERE messageid = 'sensors.RoomTooWarm'")).scalar_one()
        assert json.loads(labels) == {"priority": "high"}


@pytest.mark.parametrize("query", re.findall(r"```sql\n(.+?);\n```", (ROOT / "docs" / "bi.md").read_text(), re.DOTALL))
def test_a_dashboard_of_the_documentation_has_rows(port, query):
    cursor = hive.connect("127.0.0.1", port, username="me", database="xregistry").cursor()
    cursor.execute(query)
    assert cursor.fetchall()


class Superset:
    """Superset as a person installs it, with an administrator."""

    def __init__(self, home):
        self.home = home
        self.environment = os.environ | {
            "SUPERSET_HOME": str(home),
            "SUPERSET_CONFIG_PATH": str(Path(__file__).with_name("superset_config.py")),
            "SUPERSET_TEST_KEY": secrets.token_hex(24),
            "FLASK_APP": "superset.app:create_app()",
        }
        admin = f"fab create-admin --username admin --firstname A --lastname B --email a@example.com --password {PASSWORD}"
        for step in ("db upgrade", admin, "init"):
            subprocess.run([PUBLIC / "superset", *step.split()], check=True, capture_output=True, env=self.environment)

    @contextmanager
    def serve(self, **more):
        """Serve, and give the address."""
        port = free_port()
        command = [PUBLIC / "superset", "run", "-h", "127.0.0.1", "-p", str(port)]
        with (self.home / "log").open("a") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment | more)
        try:
            wait_for_port(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def call(address, body=None, token=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
    with urlopen(Request(address, data, headers), timeout=120) as answer:
        return json.load(answer)


def test_superset_charts_messages_by_protocol(port, expected, tmp_path):
    superset = Superset(tmp_path)
    with superset.serve() as address:
        chart, got = make_chart(f"{address}/api/v1", port)
    assert {row["protocol_family"]: row["messages"] for row in got} == expected
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser:
        picture = Path(os.environ.get("LAKEHOUSE_SCREENSHOT", tmp_path / "chart.png"))
        with superset.serve(SUPERSET_TEST_PUBLIC="Admin") as address:
            command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,800"]
            page = f"{address}/explore/?slice_id={chart}&standalone=1"
            command += ["--virtual-time-budget=60000", f"--screenshot={picture}", page]
            subprocess.run(command, check=True, capture_output=True, timeout=180)
        assert picture.stat().st_size > 10_000


def make_chart(api, port):
    """Make a database, a dataset and a chart as a person does, and ask for the chart's rows."""
    who = {"username": "admin", "password": PASSWORD, "provider": "db", "refresh": False}
    token = call(f"{api}/security/login", who)["access_token"]
    place = {"database_name": "catalog", "sqlalchemy_uri": f"hive://me@127.0.0.1:{port}/xregistry"}
    database = call(f"{api}/database/", place, token)["id"]
    assert "fact_references" in {
        one["value"] for one in call(f"{api}/database/{database}/tables/?q=(schema_name:xregistry)", None, token)["result"]
    }
    table = {"database": database, "schema": "xregistry", "table_name": "flat_messages"}
    dataset = call(f"{api}/dataset/", table, token)["id"]
    metric = {"expressionType": "SQL", "sqlExpression": "count(*)", "label": "messages"}
    query = {"columns": ["protocol_family"], "metrics": [metric], "row_limit": 100, "orderby": [], "filters": []}
    asked = {"datasource": {"id": dataset, "type": "table"}, "queries": [query], "result_format": "json", "result_type": "full"}
    shown = {"datasource": f"{dataset}__table", "viz_type": "pie", "groupby": ["protocol_family"], "metric": metric}
    chart = call(
        f"{api}/chart/",
        {
            "slice_name": "Messages by protocol",
            "viz_type": "pie",
            "datasource_id": dataset,
            "datasource_type": "table",
            "params": json.dumps({**shown, "row_limit": 100, "show_labels": True}),
            "query_context": json.dumps(asked),
        },
        token,
    )["id"]
    return chart, call(f"{api}/chart/{chart}/data/?force=true", None, token)["result"][0]["data"]
