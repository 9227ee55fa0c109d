"""`compatibility` over HTTP: a Version that breaks it is rejected with reasons, and Versions say whether they were compared."""

from __future__ import annotations

import pytest

from serve.writing import empty_warehouse, writing

GROUP = "/schemagroups/g/schemas"
ID = {"name": "id", "type": "string"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("promised")
    with writing(empty_warehouse(folder / "w").folder, folder / "r") as found:
        yield found


def version(*fields: dict, **more) -> dict:
    return {"format": "Avro/1.11", "schema": {"type": "record", "name": "R", "fields": [ID, *fields]}, **more}


def promised(served, name: str, compatibility: str = "backward") -> str:
    """Make a schema with one Version."""
    path = f"{GROUP}/{name}"
    served.done("PUT", f"{path}$details", {"meta": {"compatibility": compatibility}, "versions": {"1": version()}})
    return path


def test_a_version_that_breaks_the_promise_is_rejected_with_the_reasons(served):
    path = promised(served, "needed")
    body = version({"name": "n", "type": "int"}, ancestorid="1")
    answer = served.send("PUT", f"{path}/versions/2$details", body)
    assert answer.status == 400
    assert (
        "`compatibility` is backward, and Version 2 breaks with Version 1: /n: came: int without a default."
        in answer.body.decode()
    )
    assert served.send("GET", f"{path}/versions/2$details").status == 404


def test_a_version_that_keeps_the_promise_says_that_it_was_compared(served):
    path = promised(served, "optional")
    body = version({"name": "n", "type": "int", "default": 0}, ancestorid="1", compatibilityvalidated=False)
    made = served.done("PUT", f"{path}/versions/2$details", body)
    assert made["compatibilityvalidated"] is True
    assert "compatibilityvalidatedreason" not in made
    in_document = served.get(f"{path}$details?doc&inline=versions")
    assert "compatibilityvalidated" not in in_document["versions"]["2"]


def test_what_cannot_be_decided_is_kept_and_says_why(served):
    path = promised(served, "undecided")
    body = {"format": "Protobuf/3", "contenttype": "text/plain", "schema": "message A {}", "ancestorid": "1"}
    made = served.done("PUT", f"{path}/versions/2$details", body)
    assert made["compatibilityvalidated"] is False
    assert made["compatibilityvalidatedreason"] == "Version 1: formats differ: Avro/1.11 and Protobuf/3"


def test_a_promise_that_the_versions_do_not_keep_is_rejected(served):
    path = promised(served, "later", "none")
    served.done("PUT", f"{path}/versions/2$details", version({"name": "n", "type": "int"}, ancestorid="1"))
    assert "compatibilityvalidated" not in served.get(f"{path}/versions/2$details")
    answer = served.send("PATCH", f"{path}/meta", {"compatibility": "full"})
    assert answer.status == 400
    assert "COMP-001" in answer.body.decode()
