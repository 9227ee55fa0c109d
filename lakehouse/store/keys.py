"""Names of columns that say which entity a row is of, and how it lives; needs no Spark."""

from __future__ import annotations

LIFECYCLE = ("epoch", "createdat", "modifiedat")

VERSION_KIND = {"message": "version", "schema": "schemaversion"}

KEY = ["registryid", "kind", "xid"]

OVER_HTTP = "lakehouse:http"  # owner of what came over HTTP, in place of a document's URI
