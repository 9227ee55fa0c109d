"""`--strict`: a document with an error is refused whole, whichever way its error is found."""

from __future__ import annotations

import pytest

from lakehouse.ingest.pipeline import IngestRequest

STRICT = IngestRequest(strict=True)


@pytest.mark.slow
def test_an_error_that_refuses_nothing_else_refuses_an_unchanged_document(catalog):
    catalog.write("a.json", {"messagegroups": {"g": {"messages": {"m": {"labels": 5}}}}})
    catalog.write("b.json", {"messagegroups": {"h": {}}})
    first = catalog.ingest()
    assert (first.violations["error"], first.entities["messages"]["inserted"]) == (1, 1)
    summary = catalog.ingest(request=STRICT)
    assert (summary.documents["rejected"], summary.documents["unchanged"], summary.refused) == (1, 1, True)
    assert catalog.rows("SELECT messageid FROM messages") == ["m"]  # what was published stays


@pytest.mark.slow
def test_what_only_the_catalog_knows_of_a_draft_refuses_it_whole(catalog):
    def group(form, *names):
        section, key = ("attributes", "type") if form == "CloudEvents" else ("properties", "subject")
        definitions = [{"id": name, "format": form, "definition": {section: {key: {"value": name}}}} for name in names]
        return {"id": "g", "format": form, "messagedefinitions": definitions}

    catalog.write("a.json", group("CloudEvents", "m"))
    assert catalog.ingest(request=STRICT).entities["messages"]["inserted"] == 1
    # When a group that holds definitions changes its format (CAT-024), and another document is right
    catalog.write("a.json", group("AMQP", "m", "n"))
    catalog.write("b.json", {"id": "h", "format": "CloudEvents", "messagedefinitions": []})
    summary = catalog.ingest(request=STRICT)
    # Then nothing of it is loaded
    assert (summary.documents["rejected"], summary.entities["groups"]["inserted"]) == (1, 1)
    assert catalog.rows("SELECT messageid FROM messages") == ["m"]
    reported = catalog.rows("SELECT message FROM violations WHERE rule_id = 'DOC-004'")
    assert len(reported) == 1
    assert "CAT-024" in reported[0]
    # And read again it is reported again, and is no news
    assert catalog.ingest(request=STRICT).snapshot_id is None
