"""`compatibility` over HTTP: a Version that breaks it is rejected with reasons, and Versions say whether they were compared."""

from __future__ import annotations

import pytest

from lakehouse.domain.versionchanges import MOST_EARLIER
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
    assert in_document["versions"]["2"]["compatibilityvalidated"] is True
    assert served.get("/export")["schemagroups"]["g"]["schemas"]["optional"]["versions"]["2"]["formatvalidated"] is True
    assert "formatvalidated" not in served.get(f"{path}/versions/2$details?specversion=1.0-rc2")


def test_what_cannot_be_decided_is_kept_and_says_why(served):
    path = promised(served, "undecided")
    body = {"format": "Protobuf/3", "contenttype": "text/plain", "schema": "message A {}", "ancestorid": "1"}
    made = served.done("PUT", f"{path}/versions/2$details", body)
    assert made["compatibilityvalidated"] is False
    assert made["compatibilityvalidatedreason"] == "Version 1: formats differ: Avro/1.11 and Protobuf/3"


def test_a_version_that_is_not_compared_with_all_before_it_says_so(served):
    chain = {str(number): version(ancestorid=str(max(number - 1, 1))) for number in range(1, MOST_EARLIER + 2)}
    path = f"{GROUP}/many"
    served.done("PUT", f"{path}$details", {"meta": {"compatibility": "full_transitive"}, "versions": chain})
    assert served.get(f"{path}/versions/{MOST_EARLIER}$details")["compatibilityvalidated"] is True
    last = served.get(f"{path}/versions/{MOST_EARLIER + 1}$details")
    assert last["compatibilityvalidatedreason"] == f"it is compared with the nearest {MOST_EARLIER} Versions only"


def test_a_promise_that_the_versions_do_not_keep_is_rejected(served):
    path = promised(served, "later", "none")
    served.done("PUT", f"{path}/versions/2$details", version({"name": "n", "type": "int"}, ancestorid="1"))
    version_2 = served.get(f"{path}/versions/2$details")
    assert version_2["compatibilityvalidated"] is False
    assert version_2["compatibilityvalidatedreason"] == "the server does not compare Versions by `compatibility` none"
    answer = served.send("PATCH", f"{path}/meta", {"compatibility": "full"})
    assert answer.status == 400
    error = answer.json
    assert error["type"].endswith("#compatibility_violation")
    assert (error["subject"], error["args"]) == (path, {"compat": "full"})
    assert "Version 2 breaks with Version 1" in error["detail"]


def test_a_schema_that_breaks_the_rules_of_its_format_is_rejected(served):
    body = {"format": "Avro/1.11", "schema": {"type": "record", "name": "R"}}
    answer = served.send("PUT", f"{GROUP}/broken/versions/1$details", body)
    assert answer.status == 400
    error = answer.json
    assert error["type"].endswith("#format_violation")
    assert (error["subject"], error["args"]) == (f"{GROUP}/broken/versions/1", {"format": "Avro/1.11"})
    assert "R without `fields`" in error["detail"]


def test_what_the_server_does_not_check_says_why(served):
    path = f"{GROUP}/unchecked"
    for versionid, more in {
        "1": {"format": "GraphQL", "contenttype": "text/plain", "schema": "type A"},
        "2": {"format": "Avro/1.11", "schemaurl": "https://example.com/order.avsc"},
        "3": {"schema": {"type": "record", "name": "R"}},
    }.items():
        served.done("PUT", f"{path}/versions/{versionid}$details", {"ancestorid": "1", **more})
    versions = served.get(f"{path}/versions")
    assert versions["1"]["formatvalidated"] is False
    assert versions["1"]["formatvalidatedreason"] == "schemas of format GraphQL are not checked"
    assert versions["2"]["formatvalidatedreason"] == "the registry does not hold the document as text"
    assert "compatibilityvalidated" not in versions["2"]  # nothing is promised
    assert "formatvalidated" not in versions["3"]  # it has no format
    served.done("PATCH", f"{path}/meta", {"compatibility": "backward"})
    versions = served.get(f"{path}/versions")
    assert versions["1"]["compatibilityvalidatedreason"] == "schemas of format GraphQL are not checked"
    assert "compatibilityvalidated" not in versions["3"]


def test_what_is_checked_is_in_the_model_and_the_capabilities(served):
    capabilities, model = served.get("/capabilities"), served.get("/model")
    assert capabilities["formats"] == list(capabilities["compatibilities"])
    schemas = model["groups"]["schemagroups"]["resources"]["schemas"]
    assert (schemas["validateformat"], schemas["validatecompatibility"], schemas["strictvalidation"]) == (True, True, False)
    assert schemas["attributes"]["formatvalidated"]["readonly"] is True
