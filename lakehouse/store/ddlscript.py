"""The catalog as one SQL script, for Spark sessions and platforms that have Delta Lake and not this package.

Tables are registered where the warehouse has them; columns, comments and constraints come from Delta's log. Views follow, each
after those that it reads.
"""

from __future__ import annotations

import re

from lakehouse.settings import Settings
from lakehouse.store.schema import DECLARATIONS, SCHEMA
from lakehouse.store.views import ALL_STEPS, view_statements

_HEADER = re.compile(r"\A(?:--.*\n)+")


def ddl_script(settings: Settings, location: str, catalog: str = "", schema: str = SCHEMA) -> str:
    """Return the statements, each ended by `;` and an empty line, which occur nowhere within one.

    Args:
        settings: how far the views follow bases.
        location: URI or absolute path of the warehouse, as the session that runs the script reaches it.
        catalog: catalog of Spark that the schema is in; empty: the session's current one.
        schema: schema that is created where it is missing, and holds tables and views.
    """
    name = ".".join(_quoted(part) for part in (catalog, schema) if part)
    folder = location.rstrip("/")
    statements = [
        f"SET {' = '.join(ALL_STEPS)}",
        # Fails where there is no warehouse: CREATE TABLE would make an empty one.
        f"DESCRIBE DETAIL delta.{_quoted(f'{folder}/changes')}",
        f"CREATE SCHEMA IF NOT EXISTS {name}",
        f"USE {name}",
        *(f"CREATE TABLE IF NOT EXISTS {table} USING DELTA LOCATION {_literal(f'{folder}/{table}')}" for table in DECLARATIONS),
        *(_HEADER.sub("", statement) for statement in view_statements(settings)),
    ]
    return "".join(f"{statement};\n\n" for statement in statements)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
