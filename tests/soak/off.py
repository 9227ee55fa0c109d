"""What the stateful test does not draw or look at, each with its reason; it is to be empty."""

from __future__ import annotations

OFF: dict[str, str] = {
    "doubled": "a group in two spellings gives a row and an error of the same key",
    "surrogate": "YAML with half a surrogate pair ends the ingest",
    "array": "a document whose messagegroups is an array is skipped",
    "secrets": "secrets of YAML documents are stored",
    "dry run": "a dry run creates tables and rolls forward",
}
