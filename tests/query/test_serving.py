"""The SQL server: who gets in, and what a client sees. BI tools are in tests/bi."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner
from ports import free_port

from lakehouse.cli.main import cli
from lakehouse.errors import SettingsError
from lakehouse.query.sqlserver import PASSWORD_VARIABLE, Door, hash_password, open_catalog, write_user
from lakehouse.settings import data_folder

ROOT = Path(__file__).parents[2]
HEAD = re.compile(
    r"-- (\w+): .+\.\n-- Grain: one row per .+\.  Reads: [\w, ]+\.  Read by: users\.\n"
    r"CREATE OR REPLACE VIEW \1 \(\n(?:  \w+ COMMENT '.+',?\n)+\)"
)
STAR = sorted(file.name.removesuffix(".sql") for file in (data_folder("ddl") / "bi").iterdir())


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")
    for name in ("users", "keystore"):
        (tmp_path / name).touch()
    return {name: str(tmp_path / name) for name in ("users", "keystore")}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_the_loopback_address_is_open(host):
    Door(host).check()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "example.com"])
def test_another_address_needs_users_and_tls(host, files):
    ldap = {"ldap": "ldap://127.0.0.1", "ldap_base": "ou=people,dc=example,dc=com"}
    for some in ({}, {"users": files["users"]}, {"keystore": files["keystore"]}, ldap):
        with pytest.raises(SettingsError, match="needs authentication"):
            Door(host, **some).check()
    Door(host, **files).check()
    Door(host, keystore=files["keystore"], **ldap).check()


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({"ldap": "ldap://h"}, "--ldap-base"),
        ({"users": "/nowhere"}, "no file /nowhere"),
        ({"users": "/etc/hosts", "ldap": "ldap://h", "ldap_base": "dc=x"}, "exclude"),
        ({"keystore": "/etc/hosts"}, PASSWORD_VARIABLE),
    ],
)
def test_a_door_that_is_half_configured_is_refused(given, reported, monkeypatch):
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
    with pytest.raises(SettingsError, match=reported):
        Door(**given).check()


def test_a_users_file_holds_hashes_and_nobody_else_reads_it(tmp_path):
    file = tmp_path / "users"
    for name, password in (("ann", "first"), ("bob", "second"), ("ann", "third")):
        write_user(str(file), name, password)
    assert [line.split(":")[0] for line in file.read_text().splitlines()] == ["bob", "ann"]
    assert "third" not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert hash_password("ann", "x") != hash_password("ann", "x")
    with pytest.raises(SettingsError):
        hash_password("a:b", "x")


def test_the_command_refuses_before_it_starts_anything(tmp_path):
    refused = CliRunner().invoke(cli, ["serve-sql", "--host", "0.0.0.0"])
    assert isinstance(refused.exception, SettingsError)


@pytest.mark.parametrize(("options", "typed"), [(["--password-stdin"], "x\n"), ([], "x\nx\n")])
def test_a_password_is_typed_or_piped_and_never_an_argument(tmp_path, options, typed):
    command = ["sql-user", str(tmp_path / "users"), "ann"]
    assert CliRunner().invoke(cli, [*command, *options], input=typed).exit_code == 0
    assert CliRunner().invoke(cli, [*command, "--password", "x"]).exit_code == 2


@pytest.mark.parametrize("name", STAR)
def test_each_view_of_the_star_is_headed_as_the_others_are(name):
    assert HEAD.match((data_folder("ddl") / "bi" / f"{name}.sql").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_star_is_there_at_any_snapshot(past):
    """Keys of facts are those of dimensions, and sums over time give the state of the catalog."""
    live = open_catalog(past.spark, past.settings, None)
    then = open_catalog(past.spark, past.settings, "1")
    assert (live, then) == ("xregistry", "xregistry_at_1")
    past.spark.catalog.setCurrentDatabase(live)
    for schema, messages in ((live, ["event", "m", "o"]), (then, ["event", "m", "n", "o"])):
        known = f"SELECT message_xid FROM {schema}.dim_messages"
        assert past.rows(f"SELECT messageid FROM {schema}.dim_messages ORDER BY 1") == messages
        assert past.rows(f"SELECT DISTINCT role FROM {schema}.fact_endpoint_messages WHERE message_xid IN ({known})") == [
            "producer"
        ]
        standing = past.rows(
            f"SELECT message_xid FROM {schema}.fact_protocol_changes GROUP BY ALL HAVING sum(delta) > 0 ORDER BY 1"
        )
        assert standing == past.rows(f"{known} ORDER BY 1")
        assert past.rows(f"SELECT DISTINCT relation, is_dangling FROM {schema}.fact_references ORDER BY ALL") == [
            ("basemessage", 0),
            ("messagegroups", 0),
        ]
        assert past.rows(f"SELECT count(*) FROM {schema}.fact_violations") == [3 if schema == live else 1]
    assert past.rows(f"SELECT snapshot_id, labels FROM {live}.dim_snapshots ORDER BY 1") == [(1, "first"), (2, ""), (3, "")]
    assert past.rows(f"SELECT endpointid, roles, address FROM {live}.dim_endpoints") == [("e", "producer", "mqtt://a")]


class Server:
    """`lakehouse serve-sql` in its own process."""

    def __init__(self, folder, *options, **environment):
        self.port = free_port()
        command = [sys.executable, "-m", "lakehouse", "--warehouse", str(folder), "serve-sql", "--port", str(self.port), *options]
        variables = os.environ | {"PYTHONPATH": str(ROOT)} | environment
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables, cwd=folder.parent)
        self.printed = self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.stdout.close()
        assert self.process.wait(60) == 0

    def ask(self, query, *options, schema="xregistry", more=""):
        """Ask with beeline, as Spark ships it."""
        home = Path(pyspark.__file__).parent
        url = f"jdbc:hive2://127.0.0.1:{self.port}/{schema}{more}"
        command = [
            home / "bin" / "beeline",
            "-u",
            url,
            "--silent=true",
            "--showHeader=false",
            "--outputformat=tsv2",
            *options,
            "-e",
            query,
        ]
        reported = subprocess.run(
            command, capture_output=True, text=True, check=False, env=os.environ | {"SPARK_HOME": str(home)}
        )
        lines = [re.sub(r"\A(0: jdbc\S*> )+", "", line) for line in reported.stdout.splitlines()]  # it prompts
        return [line for line in lines if line.strip()] if reported.returncode == 0 else reported.stderr


@pytest.mark.slow
def test_beeline_sees_tables_views_and_the_past(loaded_history, tmp_path):
    shutil.copytree(loaded_history[0] / "warehouse", tmp_path / "warehouse")
    # As the history was written, so that what is flattened is computed, and not read where nothing was stored.
    with Server(tmp_path / "warehouse", LAKEHOUSE_REFRESH_EFFECTIVE="false") as server:
        assert f"jdbc:hive2://127.0.0.1:{server.port}/xregistry" in server.printed
        assert server.ask("SELECT messageid FROM flat_messages ORDER BY 1") == ["event", "m", "o"]
        assert server.ask("SELECT count(*) FROM messages VERSION AS OF 1") == ["4"]
        assert server.ask("SELECT count(*) > 100 FROM dictionary") == ["true"]
        assert server.ask("SELECT DISTINCT protocol FROM endpoint_messages") == ["MQTT"]
        for statement in ("DELETE FROM messages", "INSERT INTO changes SELECT * FROM changes", "DROP TABLE messages"):
            assert "only what reads is run" in server.ask(statement)
        for more in ("", "?spark.sql.runSQLOnFiles=true", "?set:hiveconf:spark.sql.runSQLOnFiles=true"):
            assert "root" not in str(server.ask("SELECT * FROM text.`/etc/passwd`", more=more))
            assert "root" not in str(server.ask("SELECT nosuch FROM csv.`/etc/passwd`", more=more))
        assert server.ask("SELECT '${env:PATH}'", more="?spark.sql.variable.substitute=true") == ["${env:PATH}"]
        assert server.ask("CREATE TEMPORARY VIEW messages AS SELECT 1 AS x; SELECT * FROM messages") == ["1"]
        assert server.ask("SELECT count(*) FROM messages") == ["3"]  # what one client makes, another does not see
    with Server(tmp_path / "warehouse", "--at", "first") as server:
        assert server.ask("SELECT messageid FROM flat_messages ORDER BY 1", schema="xregistry_at_1") == ["event", "m", "n", "o"]


@pytest.mark.slow
def test_with_users_and_tls_only_they_get_in(loaded_history, tmp_path):
    shutil.copytree(loaded_history[0] / "warehouse", tmp_path / "warehouse")
    users, keys = tmp_path / "users", tmp_path / "keys.p12"
    write_user(str(users), "ann", "pass:word")
    secret = "not-very-secret"
    make = "keytool -genkeypair -alias server -keyalg EC -dname CN=localhost -ext san=ip:127.0.0.1 -validity 2 -storetype PKCS12"
    subprocess.run([*make.split(), "-keystore", keys, "-storepass", secret], check=True, capture_output=True)
    trust = f";ssl=true;sslTrustStore={keys};trustStorePassword={secret}"
    with Server(tmp_path / "warehouse", "--users", str(users), "--keystore", str(keys), LAKEHOUSE_TLS_PASSWORD=secret) as server:
        count = "SELECT count(*) FROM messages"
        assert server.ask(count, "-n", "ann", "-p", "pass:word", more=trust) == ["3"]
        for name, password in (("ann", "guess"), ("eve", "pass:word"), ("ann", "")):
            assert "Error validating the login" in server.ask(count, "-n", name, "-p", password, more=trust)
        assert "Could not open" in server.ask(count, "-n", "ann", "-p", "pass:word")  # not without TLS
        write_user(str(users), "bob", "later")
        assert server.ask(count, "-n", "bob", "-p", "later", more=trust) == ["3"]


_SLAPD = """\
include {schema}/core.schema
include {schema}/cosine.schema
include {schema}/inetorgperson.schema
modulepath {modules}
moduleload back_mdb
database mdb
suffix "dc=example,dc=com"
directory {folder}
"""
_PEOPLE = """\
dn: dc=example,dc=com
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people

dn: uid=ann,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: ann
cn: Ann
sn: Ann
userPassword: pass:word
"""


@pytest.fixture
def ldap(tmp_path):
    """An LDAP server with one user, where Debian's slapd is installed, or unpacked in the folder that SLAPD_ROOT names."""
    root = Path(os.environ.get("SLAPD_ROOT", "/"))
    slapd = root / "usr" / "sbin" / "slapd"
    if not slapd.exists():
        pytest.skip("slapd is not installed")
    folder = tmp_path / "ldap"
    folder.mkdir()
    conf, people = tmp_path / "slapd.conf", tmp_path / "people.ldif"
    conf.write_text(_SLAPD.format(schema=root / "etc/ldap/schema", modules=root / "usr/lib/ldap", folder=folder))
    people.write_text(_PEOPLE)
    libraries = os.environ | {"LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu")}
    subprocess.run([slapd, "-T", "add", "-f", conf, "-l", people], check=True, capture_output=True, env=libraries)
    url = f"ldap://127.0.0.1:{free_port()}"
    process = subprocess.Popen([slapd, "-f", conf, "-h", url, "-d", "0"], env=libraries, stderr=subprocess.DEVNULL)
    yield url
    process.terminate()
    process.wait(30)


@pytest.mark.slow
def test_an_ldap_server_knows_who_gets_in(loaded_history, tmp_path, ldap):
    shutil.copytree(loaded_history[0] / "warehouse", tmp_path / "warehouse")
    with Server(tmp_path / "warehouse", "--ldap", ldap, "--ldap-base", "ou=people,dc=example,dc=com") as server:
        count = "SELECT count(*) FROM messages"
        assert server.ask(count, "-n", "ann", "-p", "pass:word") == ["3"]
        for name, password in (("ann", "guess"), ("eve", "pass:word"), ("ann", "")):
            assert "Error validating the login" in server.ask(count, "-n", name, "-p", password)
