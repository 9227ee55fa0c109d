"""Superset for the tests: with its own database and, where the environment says so, open to everyone who reaches it."""

from __future__ import annotations

import os

from pyhive.sqlalchemy_hive import HiveDialect
from sqlalchemy import text

SECRET_KEY = os.environ["SUPERSET_TEST_KEY"]
SQLALCHEMY_DATABASE_URI = f"sqlite:///{os.environ['SUPERSET_HOME']}/superset.db"
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
AUTH_ROLE_PUBLIC = os.environ.get("SUPERSET_TEST_PUBLIC", "Public")
RATELIMIT_ENABLED = False


def get_table_names(self, connection, schema=None, **kwargs):
    """As in docs/bi.md: PyHive takes the schema's name for the table's."""
    return [row[1] for row in connection.execute(text("SHOW TABLES" + (f" IN `{schema}`" if schema else "")))]


HiveDialect.get_table_names = get_table_names
