"""What the statements of users may do: queries run, and nothing else does; the log is never written."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lakehouse.query.sql import Allowed, open_guarded, run_query
from lakehouse.store.deltatables import attach_tables

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
    EXECUTE IMMEDIATE 'SELECT ?' USING 1
    BEGIN SELECT 1; END
    SELECT * FROM IDENTIFIER('changes')
    TABLE messages |> UNION ALL (SELECT * FROM messages)
    SELECT * FROM messages PIVOT (max(messageid) FOR messageid IN ('a'))
    SELECT input_file_name(), _metadata.file_path FROM messages
    SELECT * FROM sql_keywords()
    SELECT current_user(), current_database(), version()
    SELECT from_xml('<a><b>1</b></a>', 'b STRING', map('rowTag', 'a'))
    SET -v
    SET CATALOG spark_catalog
    SET spark.sql.session.timeZone=UTC
    SET spark.sql.adaptive.coalescePartitions.enabled=true
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
    SELECT TRANSFORM (messageid) USING '/bin/sh -c id' FROM messages
    FROM (FROM messages MAP messageid USING 'cat' AS a) x REDUCE a USING 'cat'
    SELECT system.builtin.reflect('java.lang.System', 'getenv', 'PATH')
    SELECT transform(array('PATH'), x -> reflect('java.lang.System', 'getenv', x))
    SELECT CASE WHEN true THEN 1 ELSE reflect('java.lang.System', 'getenv', 'PATH') END
    SELECT count(*) FROM messages WHERE EXISTS (SELECT reflect('java.lang.System', 'getenv', 'PATH'))
    SELECT * FROM messages, LATERAL (SELECT reflect('java.lang.System', 'getenv', 'PATH'))
    FROM messages |> EXTEND reflect('java.lang.System', 'getenv', 'PATH') AS x
    SELECT explode(array(reflect('java.lang.System', 'getenv', 'PATH')))
    SELECT * FROM explode(array(reflect('java.lang.System', 'getenv', 'PATH')))
    DECLARE VARIABLE v2 STRING DEFAULT reflect('java.lang.System', 'getProperty', 'user.dir')
    EXECUTE IMMEDIATE 'SELECT reflect(''java.lang.System'', ''getenv'', ''PATH'')'
    BEGIN DECLARE s STRING DEFAULT 'DROP TABLE changes'; EXECUTE IMMEDIATE s; END
    DROP NAMESPACE IF EXISTS xregistry
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
    CREATE OR REPLACE TEMPORARY VIEW f USING text OPTIONS (path '{folder}/secret.json')
    CREATE TEMPORARY TABLE f USING text OPTIONS (path '{folder}/secret.json')
    CREATE TEMPORARY VIEW f USING jdbc OPTIONS (url 'jdbc:derby:memory:x;create=true', dbtable 'x')
    CREATE TEMPORARY VIEW f AS SELECT * FROM text.`{folder}/secret.json`
    CREATE TEMPORARY FUNCTION f() RETURNS TABLE (x STRING) RETURN SELECT * FROM text.`{folder}/secret.json`
    SELECT * FROM csv.`{folder}/*`
    SELECT * FROM binaryFile.`{folder}/secret.json`
    SELECT * FROM orc.`{folder}/secret.json`
    SELECT * FROM xml.`{folder}/secret.json`
    SELECT * FROM avro.`{folder}/secret.json`
    SELECT * FROM jdbc.`{folder}/secret.json`
    SELECT * FROM `org.apache.spark.sql.json`.`{folder}/secret.json`
    SELECT * FROM `org.apache.spark.sql.execution.datasources.v2.json.JsonDataSourceV2`.`{folder}/secret.json`
    SELECT * FROM spark_catalog.json.`{folder}/secret.json`
    SELECT * FROM IDENTIFIER('json.`{folder}/secret.json`')
    SELECT * FROM read_files('{folder}/secret.json')
    SELECT * FROM read_state('{folder}')
    SELECT * FROM delta.`{warehouse}/messages@v0`
    SELECT * FROM delta.`{warehouse}/messages` VERSION AS OF 0
    SELECT * FROM delta.`{warehouse}/messages` TIMESTAMP AS OF now()
    SELECT * FROM table_changes('delta.`{warehouse}/messages`', 0)
    WITH a AS (SELECT * FROM text.`{folder}/secret.json`) SELECT * FROM a
    SELECT from_xml('<a/>', 'b STRING', map('rowValidationXSDPath', '{folder}/secret.json'))
    SELECT from_xml('<a/>', 'b STRING', map('RowValidationXsdPath', '{folder}/nosuch.json'))
    SELECT from_avro(unhex('00'), '"int"', map('avroSchemaUrl', 'file://{folder}/secret.json'))
    SELECT from_protobuf(unhex('00'), 'x', '{folder}/secret.json')
    SELECT xpath('<!DOCTYPE a SYSTEM "file://{folder}/secret.json"><a>1</a>', 'a/text()')
    DESCRIBE QUERY SELECT * FROM text.`{folder}/secret.json`
    DESCRIBE TABLE json.`{folder}/secret.json`
    DESCRIBE DETAIL '{folder}'
    DESCRIBE EXTENDED delta.`{warehouse}/messages`
    SHOW COLUMNS IN json.`{folder}/secret.json`
    SHOW TBLPROPERTIES delta.`{warehouse}/messages`
    SHOW CREATE TABLE delta.`{warehouse}/messages`
    SHOW PARTITIONS delta.`{warehouse}/messages`
    DECLARE VARIABLE v1 STRING DEFAULT (SELECT first(value) FROM text.`{folder}/secret.json`)
    SET VAR found = (SELECT first(value) FROM text.`{folder}/secret.json`)
    EXECUTE IMMEDIATE 'SELECT * FROM text.`{folder}/secret.json`'
    BEGIN FOR r AS SELECT * FROM text.`{folder}/secret.json` DO SELECT r.value; END FOR; END
    BEGIN IF (SELECT count(*) FROM text.`{folder}/secret.json`) > 0 THEN SELECT 1; END IF; END
    BEGIN DECLARE c CURSOR FOR SELECT * FROM text.`{folder}/secret.json`; OPEN c; CLOSE c; END
    BEGIN SET spark.sql.runSQLOnFiles = true; SELECT * FROM text.`{folder}/secret.json`; END
"""
# These run, and give nothing of the file.
EMPTY = """
    EXPLAIN SELECT * FROM text.`{folder}/secret.json`
    EXPLAIN EXTENDED SELECT nosuch FROM json.`{folder}/secret.json`
    EXPLAIN CODEGEN SELECT * FROM text.`{folder}/secret.json`
    EXPLAIN INSERT OVERWRITE DIRECTORY '{folder}/out' USING json SELECT 1
    SELECT xpath_string('<!DOCTYPE a [<!ENTITY x SYSTEM "file://{folder}/secret.json">]><a>&x;</a>', 'a')
    SELECT from_xml('<!DOCTYPE a [<!ENTITY x SYSTEM "file://{folder}/secret.json">]><a><b>&x;</b></a>', 'b STRING')
    SELECT schema_of_xml('<!DOCTYPE a [<!ENTITY x SYSTEM "file://{folder}/secret.json">]><a><b>&x;</b></a>')
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
    SET spark.sql.variable.substitute=true
    SET spark.sql.warehouse.dir={folder}
    SET spark.sql.catalog.evil=org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog
    SET spark.sql.adaptive.customCostEvaluatorClass=java.lang.String
    SET spark.sql.adaptive.optimizer.excludedRules=x
    SET spark.sql.optimizer.excludedRules=x
    SET spark.sql.extensions=x
    SET SESSION AUTHORIZATION x
    SET ROLE ADMIN
    RESET spark.sql.runSQLOnFiles
    INSERT INTO messages REPLACE WHERE true SELECT * FROM messages
    INSERT INTO json.`{folder}/out5` SELECT 1
    INSERT OVERWRITE LOCAL DIRECTORY '{folder}/out3' ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' SELECT 1
    INSERT OVERWRITE DIRECTORY '{folder}/out4' USING jdbc OPTIONS (url 'jdbc:derby:memory:x;create=true') SELECT 1
    FROM messages INSERT OVERWRITE LOCAL DIRECTORY '{folder}/out2' USING json SELECT *
    WITH a AS (SELECT 1) INSERT INTO messages SELECT * FROM messages
    EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE ''DROP TABLE messages'''
    BEGIN DECLARE s STRING DEFAULT 'DROP TABLE messages'; EXECUTE IMMEDIATE s; END
    BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN DROP TABLE messages; END; SELECT raise_error('x'); END
    BEGIN IF true THEN INSERT INTO messages SELECT * FROM messages; END IF; END
    CREATE TABLE delta.`{folder}/out6` (a INT) USING delta
    CREATE TABLE t7 USING parquet LOCATION '{folder}/out7' AS SELECT 1 AS a
    CREATE EXTERNAL TABLE t8 (a INT) STORED AS PARQUET LOCATION '{folder}/out8'
    CREATE MATERIALIZED VIEW mv AS SELECT 1 AS a
    CREATE STREAMING TABLE st AS SELECT 1 AS a
    CREATE FLOW fl AS INSERT INTO messages BY NAME SELECT * FROM messages
    CREATE DATABASE x LOCATION '{folder}/db'
    CREATE FUNCTION f AS 'java.lang.String' USING JAR '{folder}/x.jar'
    CREATE FUNCTION f() RETURNS INT RETURN 1
    CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT LANGUAGE PYTHON AS 'return 1'
    CREATE TEMPORARY FUNCTION f AS 'org.apache.hadoop.hive.ql.udf.UDFConv' USING JAR '{folder}/x.jar'
    REFRESH FUNCTION abs
    DROP FUNCTION IF EXISTS abs
    ADD JARS '{folder}/x.jar'
    ADD ARCHIVE '{folder}/x.zip'
    LIST JARS
    LIST FILES
    CACHE LAZY TABLE messages OPTIONS ('storageLevel' 'DISK_ONLY')
    CACHE TABLE c9 AS SELECT * FROM text.`{folder}/secret.json`
    ANALYZE TABLES IN xregistry COMPUTE STATISTICS
    ALTER TABLE messages RECOVER PARTITIONS
    ALTER TABLE messages CLUSTER BY NONE
    ALTER TABLE messages DROP FEATURE deletionVectors
    OPTIMIZE messages ZORDER BY (messageid)
    OPTIMIZE delta.`{warehouse}/messages`
    RESTORE delta.`{warehouse}/messages` TO VERSION AS OF 0
    GENERATE symlink_format_manifest FOR TABLE delta.`{warehouse}/messages`
    ALTER TABLE delta.`{warehouse}/messages` SET TBLPROPERTIES ('a' = 'b')
    CALL spark_catalog.system.rollback('x')
    EXPLAIN ADD JAR '{folder}/x.jar'
    EXPLAIN DROP TABLE messages
    dfs -ls /
    LOCK TABLE messages EXCLUSIVE
    EXPORT TABLE messages TO '{folder}/x'
    IMPORT TABLE messages FROM '{folder}/x'
"""
# What a client of the SQL server names in its address: (setting, value, a statement that would make use of it).
OF_CLIENTS = [
    ("spark.sql.variable.substitute", "true", "SELECT '${{env:PATH}}'"),
    ("spark.sql.variable.substitute", "true", "SELECT '${{system:user.dir}}'"),
    ("a", "b", "SELECT '${{hivevar:a}}'"),
    ("spark.sql.runSQLOnFiles", "true", "SELECT * FROM json.`{folder}/secret.json`"),
    ("spark.sql.catalog.evil", "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog", "SELECT * FROM evil.t"),
    ("spark.sql.catalog.evil", "java.lang.String", "SELECT * FROM evil.t"),
    ("spark.sql.catalog.spark_catalog", "java.lang.String", "SELECT count(*) FROM messages"),
    ("spark.sql.defaultCatalog", "evil", "SELECT count(*) FROM messages"),
    ("spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.PushDownPredicates", "SELECT 1"),
    ("fs.file.impl", "java.lang.String", "SELECT count(*) FROM messages"),
]


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


@pytest.mark.slow
def test_only_what_reads_runs_and_with_write_all_but_what_reaches_the_log(loaded):
    before = [loaded.rows("SELECT count(*) FROM changes"), loaded.rows("TABLE messages")]
    assert len(before[1]) == 1
    reader = open_guarded(loaded.spark)
    assert {text: reported for text in statements(READS, loaded) if (reported := outcome(reader, text))} == {}
    ran = [text for text in statements(WRITES + REFUSED + PATHS + NOT_READ, loaded) if outcome(reader, text) is None]
    assert ran == []
    assert [text for text in statements(EMPTY, loaded) if "hunter2" in str(reader.sql(text).collect())] == []
    assert sorted(path.name for path in loaded.documents.parent.iterdir()) == ["documents", "secret.json", "warehouse"]
    writer = open_guarded(loaded.spark, Allowed.WRITE)
    assert {text: reported for text in statements(READS + WRITES, loaded) if (reported := outcome(writer, text))} == {}
    assert [text for text in statements(REFUSED, loaded) if outcome(writer, text) is None] == []
    assert [loaded.rows("SELECT count(*) FROM changes"), loaded.rows("TABLE messages")] == before


def test_a_refusal_says_what_and_why_and_nothing_of_a_file(loaded):
    reader = open_guarded(loaded.spark)
    reported = outcome(reader, "DELETE FROM messages")
    assert reported.startswith("Refused (DeleteCommand): only what reads is run: queries, SHOW, DESCRIBE, EXPLAIN, USE")
    for text in statements(PATHS, loaded):
        assert "hunter2" not in (outcome(reader, text) or "hunter2"), text


def test_settings_that_a_client_names_in_its_address_are_set_back(loaded):
    """They are there before its first statement, where the check of a plan does not see them."""
    for key, value, template in OF_CLIENTS:
        (text,) = statements(template, loaded)
        reader = open_guarded(loaded.spark)
        before = reader.conf.get(key, None)
        reader.conf.set(key, value)
        reader.conf.set("spark.sql.caseSensitive", "true")
        if "evil.t" in text or "secret" in text:
            assert "TABLE_OR_VIEW_NOT_FOUND" in outcome(reader, text), text
        else:
            assert str(reader.sql(text).collect()[0][0]) == (text.split("'")[1] if "$" in text else "1")
        assert (reader.conf.get(key, None), reader.conf.get("spark.sql.caseSensitive")) == (before, "true")
    writer = open_guarded(loaded.spark, Allowed.WRITE)
    writer.conf.set("spark.sql.optimizer.excludedRules", "x")
    writer.sql("SELECT 1").collect()
    assert writer.conf.get("spark.sql.optimizer.excludedRules") == "x"


@pytest.mark.slow
def test_other_sessions_write_as_before(loaded):
    open_guarded(loaded.spark)
    assert outcome(loaded.spark.newSession(), "DELETE FROM xregistry.messages WHERE false") is None
    loaded.write("e.json", {"messagegroups": {"h": {"messages": {"n": {}}}}})
    assert loaded.ingest().entities["messages"]["inserted"] == 1
    count = run_query(loaded.spark, loaded.settings, "SELECT count(*) FROM messages", allowed=Allowed.READ)
    assert count.frame.collect()[0][0] == 2
