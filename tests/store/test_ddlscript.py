"""The script of `lakehouse ddl`: what it creates, run by a Spark session that knows nothing of this package."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lakehouse.settings import read_settings
from lakehouse.store.deltatables import TABLES, attach_tables
from lakehouse.store.session import resolve_delta_jars
from lakehouse.store.views import create_views, ddl_script, views

PLAIN = """
import json, os, sys
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
sys.modules["lakehouse"] = None
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
script, lost, jars, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.extraClassPath", jars)
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.warehouse.dir", folder)
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)
def run(path):
    for statement in open(path).read().split(";\\n\\n"):
        if statement.strip():
            spark.sql(statement)
try:
    run(lost)
    refused = False
except AnalysisException as error:
    refused = "DELTA" in str(error.getCondition())
run(script)
spark.sql("USE contracts")
print(json.dumps({
    "refused": refused,
    "relations": sorted(row.tableName for row in spark.sql("SHOW TABLES").collect()),
    "comment": [row.comment for row in spark.sql("DESCRIBE TABLE messages").collect() if row.col_name == "messageid"],
    "described": [row.comment for row in spark.sql("DESCRIBE TABLE flat_messages").collect() if row.col_name == "messageid"],
    "flat": sorted([row.xid, row.chain_status] for row in spark.sql("SELECT xid, chain_status FROM flat_messages").collect()),
    "messages": spark.table("messages").count(),
}))
"""


@pytest.mark.slow
def test_a_session_without_this_package_runs_the_script(past, tmp_path):
    settings = past.settings
    attach_tables(past.spark, settings)
    create_views(past.spark, settings, "xregistry", ["flat_messages"])
    (tmp_path / "catalog.sql").write_text(ddl_script(settings, settings.warehouse, schema="contracts"))
    (tmp_path / "lost.sql").write_text(ddl_script(settings, f"{tmp_path}/none", schema="lost"))
    arguments = [str(tmp_path / "catalog.sql"), str(tmp_path / "lost.sql"), ":".join(resolve_delta_jars(read_settings()))]
    ran = subprocess.run(
        [sys.executable, "-c", PLAIN, *arguments, str(tmp_path / "schemas")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    seen = json.loads(ran.stdout)
    assert seen["refused"]  # a wrong place is no empty table
    assert seen["relations"] == sorted([*TABLES, *views()])
    assert seen["comment"] == seen["described"] == ["Id of the message in its group"]
    flat = past.spark.sql("SELECT xid, chain_status FROM xregistry.flat_messages").collect()
    assert seen["flat"] == sorted([row.xid, row.chain_status] for row in flat)
    assert seen["messages"] == past.spark.table("xregistry.messages").count() > 0


def test_names_are_quoted_and_statements_are_apart():
    script = ddl_script(read_settings(), "s3a://lake/it's/", "main", "my`schema")
    statements = script.removesuffix(";\n\n").split(";\n\n")
    assert statements[1:4] == [
        "DESCRIBE DETAIL delta.`s3a://lake/it's/changes`",
        "CREATE SCHEMA IF NOT EXISTS `main`.`my``schema`",
        "USE `main`.`my``schema`",
    ]
    assert "USING DELTA LOCATION 's3a://lake/it\\'s/changes'" in statements[4]
    assert len(statements) == 4 + len(TABLES) + len(views())
    assert all(one.startswith("CREATE OR REPLACE VIEW ") for one in statements[4 + len(TABLES) :])
