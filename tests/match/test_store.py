"""Schemas in mapped files are found as those in memory."""

from __future__ import annotations

from builders import law
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.match.distributed import MappedVersions, _mapped, schema_table, write_store
from lakehouse.match.index import definition_rows, index_of
from lakehouse.match.payload.schemas import SchemaVersion, VersionsInMemory

NAMES = st.sampled_from(["a", "b", "é", "a/versions/1"])
KEYS = st.tuples(NAMES, NAMES)


@law
@given(st.dictionaries(KEYS, st.dictionaries(NAMES, st.none() | st.text(max_size=5), min_size=1)), st.lists(KEYS), st.data())
def test_mapped_versions_are_those_in_memory(tmp_path_factory, schemas, others, data):
    versions = []
    for (registryid, schema), texts in schemas.items():
        default = data.draw(st.sampled_from([*texts, None]))
        for name, text in texts.items():
            xid = f"{schema}/versions/{name}"
            versions.append(SchemaVersion(registryid, xid, schema, name == default, "JSONSchema", text))
    path = write_store(tmp_path_factory.mktemp("store"), index_of(definition_rows([])), schema_table(versions))
    mapped = MappedVersions(*(_mapped(f"{path}/{name}.arrow") for name in ("schemas", "schemakeys")))
    held = VersionsInMemory(versions)
    for key in {*others, *schemas, *((one.registryid, one.xid) for one in versions)}:
        assert mapped.version(key) == held.version(key)
        assert mapped.default(key) == held.default(key)
    for registryid in ("a", "b", "é"):
        flagged = [one for one in held.defaults(registryid) if one.isdefault]
        assert sorted(mapped.defaults(registryid)) == sorted(flagged)
