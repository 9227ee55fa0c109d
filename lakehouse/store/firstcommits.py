"""The first commit of a table, as Delta's protocol spells it: the empty table that `ddl/tables` creates, without a query.

For `CREATE TABLE` Delta analyses a statement, and computes by a query which files a table has that does not exist yet. For ten
tables that is a tenth of the time of a first small ingest.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import Any, NamedTuple

from pyspark.sql.types import StructField, StructType

from lakehouse.store.keys import VERSION_PROPERTY
from lakehouse.store.schema import DECLARATIONS
from lakehouse.version import VERSION

_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 3}  # which have constraints and tables that are only appended to
_OF_CLUSTERED = {
    "minReaderVersion": 1,
    "minWriterVersion": 7,
    "writerFeatures": ["domainMetadata", "checkConstraints", "invariants", "appendOnly", "clustering"],
}


class FirstCommit(NamedTuple):
    """The first version of a table: its actions, and the checksum, from which Delta knows the state of the table; JSON."""

    actions: list[str]
    checksum: str


def table_properties(name: str, version: int) -> dict[str, str]:
    """Return the properties of a table.

    Args:
        name: the table.
        version: of all tables, which a migration changes.
    """
    table = DECLARATIONS[name]
    return {
        VERSION_PROPERTY: str(version),
        "delta.checkpointPolicy": "classic",
        "delta.enableDeletionVectors": "false",
        "delta.deletedFileRetentionDuration": "interval 30 days",
        "delta.logRetentionDuration": "interval 30 days",
        **({"delta.appendOnly": "true"} if table.is_append_only else {}),
        **{f"delta.constraints.{constraint}": condition for constraint, condition in table.constraints.items()},
    }


def first_commit(name: str, version: int) -> FirstCommit:
    """Return the first commit of a table; arguments as of `table_properties`."""
    table = DECLARATIONS[name]
    properties = table_properties(name, version)
    now = time.time_ns() // 1_000_000
    columns = [
        StructField(column.name, column.dataType, column.name not in table.key, column.metadata) for column in table.columns
    ]
    metadata = {
        "id": str(uuid.uuid4()),
        "description": table.comment,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": StructType(columns).json(),
        "partitionColumns": [],
        "configuration": properties,
        "createdTime": now,
    }
    clustering = {"clusteringColumns": [[column] for column in table.cluster_by], "domainName": "delta.clustering"}
    domains = [{"domain": "delta.clustering", "configuration": _json(clustering), "removed": False}] if table.cluster_by else []
    protocol = _OF_CLUSTERED if table.cluster_by else _PROTOCOL
    parameters = {
        "partitionBy": "[]",
        "clusterBy": _json(table.cluster_by),
        "description": table.comment,
        "isManaged": "false",
        "properties": _json(properties),
    }
    details = {
        "timestamp": now,
        "operation": "CREATE TABLE",
        "operationParameters": parameters,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {},
        "engineInfo": f"xRegistry-Lakehouse/{VERSION}",
    }
    actions = [
        {"commitInfo": details},
        {"metaData": metadata},
        {"protocol": protocol},
        *({"domainMetadata": domain} for domain in domains),
    ]
    checksum = {
        "tableSizeBytes": 0,
        "numFiles": 0,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": domains,
        "metadata": metadata,
        "protocol": protocol,
        "allFiles": [],
    }
    return FirstCommit([_json(action) for action in actions], _json(checksum))


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
