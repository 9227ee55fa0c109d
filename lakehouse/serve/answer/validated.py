"""What the server has checked of a Version: its format, and its compatibility with those before it; where it has not, why not.

Core, `formatvalidated`, `compatibilityvalidated` and their reasons: only Versions with a `format` have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from lakehouse.compatibility import check_format
from lakehouse.domain.promises import PROMISES, compared_pairs, why_undecided
from lakehouse.domain.versionchanges import NO_TEXT, compared_version
from lakehouse.text.jsontext import canonical_text


def add_validation(kind: str, compatibility: Any, versions: Mapping[str, dict[str, Any]], documents: Mapping[str, Any]) -> None:
    """Add the four attributes to Versions in 1.0-rc4.

    Args:
        kind: of the Versions, `version` or `schemaversion`; what a message is does not depend on its format.
        compatibility: of their message or schema; None: nothing is promised.
        versions: by id, without documents.
        documents: of Versions of a schema, by id: JSON values and texts.
    """
    formatted = {versionid: version for versionid, version in versions.items() if isinstance(version.get("format"), str)}
    if not formatted:
        return
    if kind == "schemaversion":
        for versionid, version in formatted.items():
            _add(version, "formatvalidated", _why_unchecked(version["format"], documents.get(versionid)))
    if compatibility is not None:
        reasons = _why_undecided(kind, compatibility, versions, documents)
        for versionid, version in formatted.items():
            _add(version, "compatibilityvalidated", version.get("formatvalidatedreason") or reasons.get(versionid))


def _add(version: dict[str, Any], name: str, reason: str | None) -> None:
    version[name] = reason is None
    if reason is not None:
        version[f"{name}reason"] = reason


def _why_unchecked(format: str, document: Any) -> str | None:
    """Return why a document was not checked, or what is wrong with one that was loaded all the same; None: it is valid."""
    if document is None:
        return NO_TEXT
    check = check_format(document if isinstance(document, str) else orjson.loads(canonical_text(document)), format)
    return None if check.is_valid else check.reason


def _why_undecided(
    kind: str, compatibility: Any, versions: Mapping[str, dict[str, Any]], documents: Mapping[str, Any]
) -> dict[str, str]:
    """Return by id why Versions were not compared with those before them; others keep what is promised."""
    if compatibility not in PROMISES:
        return dict.fromkeys(versions, f"the server does not compare Versions by `compatibility` {compatibility}")
    compared = {
        versionid: compared_version(kind, version | ({"schema": documents[versionid]} if versionid in documents else {}))
        for versionid, version in versions.items()
    }
    ancestors = {versionid: str(version.get("ancestorid") or versionid) for versionid, version in versions.items()}
    reasons: dict[str, str] = {}
    for later, earlier in compared_pairs(ancestors, compatibility):
        why = why_undecided(kind, compared[earlier], compared[later])
        if why is not None:
            reasons.setdefault(later, f"Version {earlier}: {why}")
    return reasons
