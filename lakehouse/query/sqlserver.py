"""`lakehouse serve-sql`: the catalog for JDBC and ODBC clients, by the Thrift Server that Spark ships, inside one session.

The server shares the session in which the tables are attached, so clients see the catalog without a metastore. By itself it lets
any user name in, so it listens on the loopback address, and on another one only with authentication and TLS.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import os
import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.errors import LakehouseError, SettingsError
from lakehouse.log.snapshots import open_snapshot, resolve_snapshot
from lakehouse.query.sql import NO_PATHS, Allowed, guard_new_sessions, open_guarded
from lakehouse.settings import Settings, data_folder
from lakehouse.store.deltatables import TELL_CATALOG, attach_tables
from lakehouse.store.durable import replace_synced
from lakehouse.store.internals.guards import compile_class, set_property, start_sql_server
from lakehouse.store.schema import SCHEMA
from lakehouse.store.session import open_sibling
from lakehouse.store.views import create_views

LOOPBACK = "127.0.0.1"
PASSWORD_VARIABLE = "LAKEHOUSE_TLS_PASSWORD"  # noqa: S105  the name of it
ITERATIONS = 600_000
_SECONDS_TO_START = 60
# What must be set before the session starts. Each connection is its own session, with the tables and views of this one;
# result sets come in parts.
_SPARK = {
    "spark.sql.hive.thriftServer.singleSession": "false",
    "spark.sql.thriftServer.incrementalCollect": "true",
    **NO_PATHS,
    TELL_CATALOG: "true",  # clients list the columns of tables out of the session's catalog
}


@dataclass(frozen=True)
class Door:
    """Where the server listens, and whom it lets in.

    Attributes:
        host: address to bind.
        port: port.
        users: file of users and hashed passwords, as `hash_password` writes its lines.
        ldap: URL of an LDAP server.
        ldap_base: distinguished name below which users are found by their `uid`.
        keystore: Java keystore (PKCS#12 or JKS) with the server's key; its password is in the environment.
    """

    host: str = LOOPBACK
    port: int = 10000
    users: str | None = None
    ldap: str | None = None
    ldap_base: str | None = None
    keystore: str | None = None

    def check(self) -> None:
        """Check that nobody gets in who should not.

        Raises:
            SettingsError: a way in is open, or half configured.
        """
        if self.users and self.ldap:
            raise SettingsError("--users and --ldap exclude each other.")
        if bool(self.ldap) != bool(self.ldap_base):
            raise SettingsError("--ldap needs --ldap-base, and the other way round.")
        for name, path in (("--users", self.users), ("--keystore", self.keystore)):
            if path and not Path(path).is_file():
                raise SettingsError(f"{name}: there is no file {path}.")
        if self.keystore and not os.environ.get(PASSWORD_VARIABLE):
            raise SettingsError(f"--keystore needs its password in the environment variable {PASSWORD_VARIABLE}.")
        if not _is_loopback(self.host) and not ((self.users or self.ldap) and self.keystore):
            raise SettingsError(
                f"--host {self.host} is not the loopback address: others could reach it. That needs authentication "
                "(--users FILE, or --ldap URL and --ldap-base) and TLS (--keystore FILE). docs/bi.md explains how."
            )


def serving_settings(settings: Settings) -> Settings:
    """Return the settings with which the session must start."""
    return settings.model_copy(update={"spark": {**_SPARK, **settings.spark}})


def open_catalog(spark: SparkSession, settings: Settings, at: str | None) -> str:
    """Attach all tables and create all views, those of docs/bi.md among them.

    Args:
        spark: the session.
        settings: the warehouse.
        at: a snapshot, as in `resolve_snapshot`; None: the live tables.

    Returns:
        The schema.

    Raises:
        WarehouseError: the warehouse holds no catalog.
        SnapshotNotFound: `at` names none.
    """
    attach_tables(spark, settings)
    if at is None:
        create_views(spark, settings, SCHEMA, stored=settings.refresh_effective)
        schema = SCHEMA
    else:
        schema = open_snapshot(spark, settings, resolve_snapshot(spark, at))
    session = open_sibling(spark, schema)
    for file in sorted((data_folder("ddl") / "bi").iterdir(), key=lambda file: file.name):
        session.sql(file.read_text(encoding="utf-8").rstrip().removesuffix(";"))
    spark.catalog.setCurrentDatabase(schema)
    return schema


def start_server(spark: SparkSession, door: Door, allowed: Allowed = Allowed.READ) -> Any:
    """Start the server, and wait until it listens.

    Args:
        spark: the session with the catalog.
        door: where it listens, and whom it lets in.
        allowed: what clients may run.

    Returns:
        Spark's server, whose method `stop` ends it.

    Raises:
        LakehouseError: it does not come to listen.
    """
    door.check()
    _check_port(door)
    spark = open_guarded(spark, allowed)
    guard_new_sessions(spark, allowed)  # of each connection
    for key, value in _server_conf(spark, door).items():
        spark.conf.set(key, value)
        if "authentication" in key:  # what lets users in reads its settings from nowhere else
            set_property(spark, key, value)
    try:
        server = start_sql_server(spark)
    except Exception as error:
        details = str(getattr(error, "java_exception", error)).splitlines()[0]
        raise LakehouseError(f"the server does not start: {details}") from error
    finally:
        spark.conf.unset("hive.server2.keystore.password")  # SET would show it
    until = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < until:
        with socket.socket() as attempt:
            attempt.settimeout(1)
            if attempt.connect_ex((door.host, door.port)) == 0:
                return server
        time.sleep(0.2)
    raise LakehouseError(f"the server does not listen on {door.host}:{door.port} after {_SECONDS_TO_START} s.")


def hash_password(name: str, password: str) -> str:
    """Return a user's line of a users file.

    Raises:
        SettingsError: the name cannot be in the file, or the password is empty.
    """
    if not name or ":" in name or not name.isprintable() or not password:
        raise SettingsError("a user has a name without colons, and a password.")
    salt = secrets.token_bytes(16)
    digest = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    return ":".join((name, str(ITERATIONS), base64.b64encode(salt).decode(), base64.b64encode(digest).decode()))


def write_user(file: str, name: str, password: str) -> None:
    """Write a user into a users file, which nobody else may read; it is read at each log-in, so a server need not start again."""
    line = hash_password(name, password)
    path = Path(file)
    other_lines = (
        [line for line in path.read_text(encoding="utf-8").splitlines() if line.split(":")[0] != name] if path.exists() else []
    )
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fresh.touch(mode=0o600)
    fresh.write_text("\n".join([*other_lines, line]) + "\n", encoding="utf-8")
    replace_synced(fresh, path)


def _server_conf(spark: SparkSession, door: Door) -> dict[str, str]:
    conf = {"hive.server2.thrift.bind.host": door.host, "hive.server2.thrift.port": str(door.port)}
    conf |= {"hive.server2.transport.mode": "binary", "hive.server2.enable.doAs": "false"}
    if door.users:
        _compile_users_file(spark, door.users)
        conf |= {"hive.server2.authentication": "CUSTOM", "hive.server2.custom.authentication.class": "xregistry.UsersFile"}
    elif door.ldap:
        conf |= {"hive.server2.authentication": "LDAP", "hive.server2.authentication.ldap.url": door.ldap}
        conf |= {"hive.server2.authentication.ldap.baseDN": str(door.ldap_base)}
    if door.keystore:
        conf |= {
            "hive.server2.use.SSL": "true",
            "hive.server2.keystore.path": str(Path(door.keystore).absolute()),
            "hive.server2.keystore.password": os.environ[PASSWORD_VARIABLE],
        }
    return conf


def _compile_users_file(spark: SparkSession, users: str) -> None:
    """Make the class that reads the users file known to the server."""
    set_property(spark, "xregistry.users", str(Path(users).absolute()))
    compile_class(spark, "UsersFile.java", "xregistry.UsersFile")


def _check_port(door: Door) -> None:
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((door.host, door.port))
        except OSError as error:
            raise SettingsError(f"{door.host}:{door.port} cannot be bound: {error.strerror}. Choose another --port.") from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
