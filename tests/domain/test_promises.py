"""What `compatibility` promises between Versions: of schemas and of messages, backward, forward, full, transitive."""

from __future__ import annotations

import pytest

from lakehouse.domain.neighbours import EntityState, RuleLimits, violations_of
from lakehouse.domain.versionchanges import (
    ComparableVersion,
    broken_promise,
    comparable_version,
    earlier_versions,
    pairs_to_compare,
)
from lakehouse.text.names import Xid

SCHEMA = "/schemagroups/g/schemas/s"
LIMITS = RuleLimits(8, "warning")


def schema(*fields: dict, ancestor: str = "1", format_: str = "Avro/1.11") -> dict:
    held = [{"name": "id", "type": "string"}, *fields]
    return {"format": format_, "schema": {"type": "record", "name": "Order", "fields": held}, "ancestor": ancestor}


BASE = schema()
NEEDED = schema({"name": "n", "type": "int"})
OPTIONAL = schema({"name": "n", "type": "int", "default": 0})


@pytest.mark.parametrize(
    ("compatibility", "before", "after", "is_broken"),
    [
        ("backward", BASE, NEEDED, True),
        ("forward", BASE, NEEDED, False),
        ("full", BASE, NEEDED, True),
        ("backward", NEEDED, BASE, False),
        ("forward", NEEDED, BASE, True),
        ("full_transitive", NEEDED, BASE, True),
        ("full", BASE, OPTIONAL, False),
        ("full", BASE, {"format": "Protobuf/3", "schema": "message A {}"}, False),
        ("full", BASE, {"format": "Avro/1.11", "schema": {"type": "unreadable"}}, False),
        ("full", BASE, {"format": "Avro/1.11"}, False),
    ],
)
def test_a_promise_of_a_schema_is_kept_broken_or_undecided(compatibility, before, after, is_broken):
    pair = comparable_version("schemaversion", before), comparable_version("schemaversion", after)
    assert bool(broken_promise("schemaversion", compatibility, *pair)) == is_broken


def test_a_promise_of_a_message_is_about_its_attributes():
    def message(required: bool) -> ComparableVersion:
        declared = {"subject": {"type": "string", "required": required}}
        return comparable_version("version", {"envelope": "CloudEvents/1.0", "envelopemetadata": declared})

    (reported,) = broken_promise("version", "backward", message(False), message(True))
    assert reported == (
        "/envelopemetadata/subject/required: was false, is true. Producers must send an attribute that they could leave out."
    )
    assert broken_promise("version", "forward", message(False), message(True)) == []
    assert broken_promise("version", "forward", message(True), message(False)) != []


def test_a_transitive_promise_is_about_all_ancestors_and_circles_end():
    ancestors = {"1": "1", "2": "1", "3": "2", "a": "b", "b": "a"}
    assert earlier_versions("3", ancestors, compatibility="backward") == ["2"]
    assert earlier_versions("3", ancestors, compatibility="backward_transitive") == ["2", "1"]
    assert earlier_versions("1", ancestors, compatibility="full_transitive") == []
    assert earlier_versions("a", ancestors, compatibility="full_transitive") == ["b"]


def test_a_version_is_compared_with_a_hundred_ancestors_at_most():
    ancestors = {str(number): str(max(number - 1, 1)) for number in range(1, 301)}
    assert earlier_versions("300", ancestors, compatibility="full_transitive") == [str(number) for number in range(299, 199, -1)]
    assert len(pairs_to_compare(ancestors, "backward_transitive")) == sum(min(number, 100) for number in range(300))


class Around:
    """A schema with its Versions."""

    def __init__(self, compatibility: str, **versions: dict) -> None:
        self.schema = EntityState("schema", Xid(SCHEMA), {"compatibility": compatibility})
        self.versions = [EntityState("schemaversion", Xid(f"{SCHEMA}/versions/{one[1:]}"), versions[one]) for one in versions]

    def entity(self, xid):
        return next((one for one in (self.schema, *self.versions) if one.xid == xid), None)

    def children(self, xid):
        return self.versions if xid == SCHEMA else []

    def alike(self, xid):
        return None


def found(around: Around, entity: EntityState, before: EntityState | None = None) -> list[tuple[str, str]]:
    return [(one.rule_id, one.message.partition(":")[0]) for one in violations_of(entity, before, around, LIMITS)]


def test_a_new_version_is_compared_with_its_ancestor():
    around = Around("backward", v1=BASE, v2=NEEDED)
    reported = "`compatibility` is backward, and Version 2 breaks with Version 1"
    assert found(around, around.versions[1]) == [("COMP-001", reported)]
    assert found(Around("none", v1=BASE, v2=NEEDED), around.versions[1]) == []


def test_a_version_that_changed_is_compared_with_those_made_from_it():
    around = Around("backward", v1=BASE, v2=NEEDED)
    assert found(around, around.versions[0]) == []  # the finding is about the later one
    around.versions[1] = around.versions[1]._replace(is_written=False)
    assert len(found(around, around.versions[0])) == 1
    around.versions[0] = around.versions[0]._replace(is_written=False)
    assert found(around, around.versions[0]) == []


def test_a_promise_that_is_made_later_is_checked_for_all_versions():
    around = Around("backward", v1=BASE, v2=NEEDED)
    around.versions = [one._replace(is_written=False) for one in around.versions]
    assert len(found(around, around.schema, around.schema._replace(attributes={}))) == 1
    assert found(around, around.schema, around.schema) == []
