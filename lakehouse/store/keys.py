"""Names of columns that say which entity a row is of, and how it lives, and of what tables say themselves; needs no Spark."""

from __future__ import annotations

LIFECYCLE = ("epoch", "createdat", "modifiedat")

VERSION_KIND = {"message": "version", "schema": "schemaversion"}

KEY = ["registryid", "kind", "xid"]

VERSION_PROPERTY = "xregistry.schema_version"  # property of a table: the version of all tables

OVER_HTTP = "lakehouse:http"  # owner of what came over HTTP, in place of a document's URI
