"""What the statements of users may do: queries run, and nothing else does; the log is never written."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lakehouse.query.readonly import Allowed, open_guarded
from lakehouse.query.sql import run_query
from lakehouse.store.tables import attach_tables

pytestmark = pytest.mark.attack

READS = """
    SELECT count(*) FROM messages
    WITH a AS (SELECT 1 AS x) SELECT * FROM a
    SELECT count(*) FROM messages VERSION AS OF 0
    FROM messages |> SELECT messageid |> LIMIT 1
    VALUES (1), (2)
    TABLE messages
    SELECT transform(array(1, 2), x -> x + 1)
    SHOW TABLES
    SHOW VIEWS
    SHOW TABLE EXTENDED LIKE 'messages'
    SHOW COLUMNS IN messages
    SHOW TBLPROPERTIES messages
    SHOW FUNCTIONS LIKE 'abs'
    SHOW SCHEMAS
    SHOW CATALOGS
    SHOW CURRENT NAMESPACE
    DESCRIBE messages
    DESCRIBE EXTENDED messages
    DESCRIBE messages messageid
    DESCRIBE HISTORY messages
    DESCRIBE DETAIL messages
    DESCRIBE QUERY SELECT 1
    DESCRIBE SCHEMA xregistry
    DESCRIBE FUNCTION abs
    EXPLAIN FORMATTED SELECT * FROM messages
    USE xregistry
    SET
    SET spark.sql.ansi.enabled
    SET spark.sql.ansi.enabled=true
    SET TIME ZONE 'UTC'
    CREATE TEMPORARY VIEW mine AS SELECT 1 AS x
    SELECT * FROM mine
    DROP VIEW mine
    DECLARE VARIABLE found INT DEFAULT 1
    SET VAR found = 2
    SELECT found
    EXECUTE IMMEDIATE 'SELECT count(*) FROM messages'
    BEGIN SELECT 1; END
"""
# What --write allows too; the statements that come last are not run in the test: the session goes on.
WRITES = """
    UPDATE messages SET messageid = 'x' WHERE false
    DELETE FROM messages WHERE false
    INSERT INTO messages SELECT * FROM messages WHERE false
    MERGE INTO messages AS m USING (SELECT 1 AS x) AS s ON m.messageid = 'x' AND false WHEN MATCHED THEN DELETE
    EXECUTE IMMEDIATE 'DELETE FROM messages WHERE false'
    BEGIN DELETE FROM messages WHERE false; END
    EXPLAIN DELETE FROM messages
    WITH a AS (SELECT * FROM messages WHERE false) INSERT INTO messages SELECT * FROM a
    FROM messages INSERT INTO messages SELECT * WHERE false
    ALTER TABLE messages SET TBLPROPERTIES ('a' = 'b')
    ALTER TABLE messages UNSET TBLPROPERTIES ('a')
    OPTIMIZE messages
    COMMENT ON TABLE messages IS 'x'
    CREATE VIEW ours AS SELECT 1 AS x
    ALTER VIEW ours AS SELECT 2 AS x
    CREATE OR REPLACE VIEW ours AS SELECT 3 AS x
    DROP VIEW ours
    CREATE GLOBAL TEMPORARY VIEW everybodys AS SELECT 1 AS x
    CREATE TEMPORARY FUNCTION more(x INT) RETURNS INT RETURN x + 1
    DROP TEMPORARY FUNCTION more
    REFRESH TABLE messages
    CACHE TABLE messages
    UNCACHE TABLE messages
    CLEAR CACHE
    RESET
    SET spark.databricks.delta.retentionDurationCheck.enabled=true
"""
REFUSED = """
    INSERT INTO changes SELECT * FROM changes
    INSERT OVERWRITE changes SELECT * FROM changes
    DELETE FROM xregistry.changes
    UPDATE changes SET xid = 'x'
    EXECUTE IMMEDIATE 'DELETE FROM chan' || 'ges'
    BEGIN TRUNCATE TABLE changes; END
    TRUNCATE TABLE changes
    DROP TABLE changes
    DROP TABLE IF EXISTS spark_catalog.xregistry.changes
    ALTER TABLE changes RENAME TO c
    ALTER TABLE changes SET TBLPROPERTIES ('a' = 'b')
    ALTER TABLE changes ADD COLUMNS (z INT)
    RESTORE TABLE changes TO VERSION AS OF 0
    VACUUM changes RETAIN 0 HOURS
    CREATE OR REPLACE TABLE changes USING delta AS SELECT 1 AS a
    DROP SCHEMA xregistry CASCADE
    ALTER SCHEMA xregistry SET LOCATION '{folder}/x'
    SELECT reflect('java.lang.System', 'getProperty', 'user.dir')
    SELECT builtin.java_method('java.lang.System', 'getProperty', 'user.dir')
    SELECT * FROM messages WHERE messageid = (SELECT try_reflect('java.lang.System', 'getProperty', 'user.dir'))
    SELECT TRANSFORM (1) USING 'cat' AS (a)
    DELETE FROM delta.`{warehouse}/changes`
    INSERT INTO delta.`{warehouse}/changes` SELECT * FROM messages
    VACUUM '{warehouse}/changes'
"""
# Paths, which only the plan of a reader is checked for: with --write the setting alone turns them off.
PATHS = """
    SELECT * FROM json.`{folder}/secret.json`
    SELECT * FROM text.`{folder}/secret.json`
    SELECT nosuch FROM text.`{folder}/secret.json`
    SELECT * FROM delta.`{warehouse}/messages`
    SELECT * FROM parquet.`{warehouse}/messages`
    SELECT * FROM table_changes_by_path('{warehouse}/messages', 0)
    DESCRIBE HISTORY '{warehouse}/messages'
    DESCRIBE DETAIL delta.`{warehouse}/messages`
    CREATE TEMPORARY VIEW f USING json OPTIONS (path '{folder}/secret.json')
"""
# Of these only what reads is a question: they would change more than the test can put back.
NOT_READ = """
    DELETE FROM messages
    UPDATE messages SET messageid = 'x'
    MERGE INTO messages USING (SELECT 1 AS x) ON false WHEN NOT MATCHED BY SOURCE THEN DELETE
    INSERT OVERWRITE messages SELECT * FROM messages
    INSERT OVERWRITE DIRECTORY '{folder}/out' USING json SELECT 1
    TRUNCATE TABLE messages
    DROP TABLE messages
    DROP TABLE IF EXISTS nosuch
    CREATE TABLE t (a INT) USING delta
    CREATE TABLE t USING json LOCATION '{folder}/secret.json'
    CREATE TABLE t USING delta AS SELECT 1 AS a
    CREATE OR REPLACE TABLE messages USING delta AS SELECT 1 AS a
    CREATE TABLE t LIKE messages
    CREATE TABLE t SHALLOW CLONE messages
    CREATE SCHEMA s
    ALTER TABLE messages ADD COLUMNS (z INT)
    ALTER TABLE messages RENAME TO m
    ALTER TABLE messages DROP COLUMN messageid
    ALTER TABLE messages SET LOCATION '{folder}/x'
    ALTER TABLE messages ADD CONSTRAINT c CHECK (true)
    ALTER SCHEMA xregistry SET DBPROPERTIES ('a' = 'b')
    COMMENT ON SCHEMA xregistry IS 'x'
    VACUUM messages RETAIN 0 HOURS
    RESTORE TABLE messages TO VERSION AS OF 0
    REORG TABLE messages APPLY (PURGE)
    GENERATE symlink_format_manifest FOR TABLE messages
    CONVERT TO DELTA parquet.`{folder}/x`
    ANALYZE TABLE messages COMPUTE STATISTICS
    CACHE TABLE big AS SELECT * FROM messages
    REFRESH '{folder}'
    MSCK REPAIR TABLE messages
    LOAD DATA INPATH '{folder}/secret.json' INTO TABLE messages
    ADD JAR '{folder}/x.jar'
    ADD FILE '{folder}/secret.json'
    CREATE FUNCTION f AS 'java.lang.String'
    CREATE TEMPORARY FUNCTION f AS 'java.lang.String'
    SET spark.sql.runSQLOnFiles=true
    SET hive.exec.dynamic.partition=true
"""


def statements(text, catalog):
    folder = catalog.documents.parent
    (folder / "secret.json").write_text('{"password": "hunter2"}')
    return [line.strip().format(folder=folder, warehouse=catalog.settings.warehouse) for line in text.strip().splitlines()]


def outcome(session, statement):
    """None where a statement runs, else the first line of its error."""
    try:
        session.sql(statement).limit(1).collect()
    except (PySparkException, Py4JJavaError) as error:
        return str(error).splitlines()[0]
    return None


@pytest.fixture
def loaded(catalog):
    catalog.write("d.json", {"messagegroups": {"g": {"messages": {"m": {}}}}})
    catalog.ingest()
    attach_tables(catalog.spark, catalog.settings)
    return catalog


def test_only_what_reads_runs_and_with_write_all_but_what_reaches_the_log(loaded):
    before = [loaded.rows("SELECT count(*) FROM changes"), loaded.rows("TABLE messages")]
    assert len(before[1]) == 1
    reader = open_guarded(loaded.spark)
    assert {text: told for text in statements(READS, loaded) if (told := outcome(reader, text))} == {}
    ran = [text for text in statements(WRITES + REFUSED + PATHS + NOT_READ, loaded) if outcome(reader, text) is None]
    assert ran == []
    writer = open_guarded(loaded.spark, Allowed.WRITE)
    assert {text: told for text in statements(READS + WRITES, loaded) if (told := outcome(writer, text))} == {}
    assert [text for text in statements(REFUSED, loaded) if outcome(writer, text) is None] == []
    assert [loaded.rows("SELECT count(*) FROM changes"), loaded.rows("TABLE messages")] == before


def test_a_refusal_says_what_and_why_and_nothing_of_a_file(loaded):
    reader = open_guarded(loaded.spark)
    told = outcome(reader, "DELETE FROM messages")
    assert told.startswith("Refused (DeleteCommand): only what reads is run: queries, SHOW, DESCRIBE, EXPLAIN, USE")
    reader.conf.set("spark.sql.runSQLOnFiles", "true")  # as a client of the SQL server can, in its address
    for text in statements(PATHS, loaded):
        assert "hunter2" not in (outcome(reader, text) or "hunter2"), text


def test_other_sessions_write_as_before(loaded):
    open_guarded(loaded.spark)
    assert outcome(loaded.spark.newSession(), "DELETE FROM xregistry.messages WHERE false") is None
    loaded.write("e.json", {"messagegroups": {"h": {"messages": {"n": {}}}}})
    assert loaded.ingest().entities["messages"]["inserted"] == 1
    count = run_query(loaded.spark, loaded.settings, "SELECT count(*) FROM messages", allowed=Allowed.READ)
    assert count.frame.collect()[0][0] == 2
