"""What is written of the protocols outside of the tables: each such place names all of them, and says the same."""

from __future__ import annotations

import json
import re

from lakehouse.dialects.tables import FAMILIES, places_of, shared_options, shorthands, table
from lakehouse.domain.protocols import WITHOUT_VERSION
from lakehouse.match.definition.compiled import ADDRESSES
from lakehouse.render.protocolbinding import FAMILIES as RENDERED
from lakehouse.rules.entity.constraints import constraints
from lakehouse.settings import data_folder


def test_rendering_and_matching_name_every_protocol():
    assert sorted(RENDERED) == sorted(FAMILIES)
    assert sorted(ADDRESSES) == sorted(FAMILIES)


def test_an_address_is_an_option_that_the_tables_know():
    for family, path in ADDRESSES.items():
        place, _, name = f"protocoloptions/{path}".rpartition("/")
        assert name in places_of("message", family)[place].targets


def test_the_views_take_the_address_from_where_matching_does():
    view = (data_folder("ddl") / "views" / "computed_messages.sql").read_text(encoding="utf-8")
    known, by_family, otherwise = re.search(
        r"protocol_family IN \((.*)\) THEN\s+texts\[\s+map\(([^)]*)\)\[protocol_family\]\s+\]"
        r"\s+ELSE coalesce\(([^)]*)\)\s+END AS address",
        view,
    ).groups()
    pointers = {family: f"/protocoloptions/{path}/value" for family, path in ADDRESSES.items()}
    assert dict(re.findall(r"'(\w+)', '([^']+)'", by_family)) == pointers
    assert sorted(re.findall(r"\w+", known)) == sorted(pointers)
    assert sorted(re.findall(r"texts\['([^']+)'\]", otherwise)) == sorted(pointers.values())


def test_all_that_becomes_a_column_is_read_as_text():
    views = data_folder("ddl") / "views"
    texts, *readers = (
        (views / f"{name}.sql").read_text(encoding="utf-8")
        for name in ("message_texts", "inferred_definitions", "computed_messages")
    )
    chosen = re.search(r"pointer IN \(([^)]*)\)", texts)[1]
    used = {pointer for reader in readers for pointer in re.findall(r"texts\['([^']+)'\]", reader)}
    used |= set(re.findall(r"texts\['([^']+)'\]", texts))
    assert set(re.findall(r"'([^']+)'", chosen)) == used


def test_the_views_say_what_the_tables_of_protocols_and_options_say():
    """Views are plain SQL, to be pasted anywhere: they repeat shorthands and defaults."""
    views = data_folder("ddl") / "views"
    flat = (views / "computed_messages.sql").read_text(encoding="utf-8")
    said = re.search(r"map\(([^)]*)\)\[protocol_family\]\n  \) AS protocol_version", flat)
    assert said is not None
    assert dict(re.findall(r"'(\w+)', '([^']+)'", said[1])) == shorthands()
    endpoints = (views / "endpoint_options.sql").read_text(encoding="utf-8")
    defaults = re.search(r"    map\(\n(.*?)\n    \)\[protocol_family\] AS defaults", endpoints, re.DOTALL)
    assert defaults is not None
    maps = dict(re.findall(r"'([A-Z]+)', map\(([^)]*)\)", defaults[1]))
    written = {family: dict(re.findall(r"'([^']*)', '([^']*)'", pairs)) for family, pairs in maps.items()}
    reported: dict[str, dict[str, str]] = {}
    for row in table("option_defaults"):
        default = json.loads(row["default"])
        text = default if isinstance(default, str) else json.dumps(default)
        reported.setdefault(row["protocol_family"], {})[row["option"]] = text
    assert reported.pop("") == {"deployed": "true"}
    assert "map('deployed', 'true')" in endpoints
    assert written == reported
    for role in ("producer", "consumer"):
        said = re.search(rf"NOT array_contains\(usage, '{role}'\) THEN\n(.*)\n    END AS {role}_options", endpoints)
        assert said is not None
        named = {
            (family, name)
            for family, names in re.findall(r"'([A-Z]+)', array\(([^)]*)\)", said[1])
            for name in re.findall(r"\w+", names)
        }
        assert named == {(row.family, row.name) for row in constraints() if row.argument == role}


def test_the_view_of_what_endpoints_carry_names_the_options_that_messages_share():
    view = (data_folder("ddl") / "views" / "endpoint_messages.sql").read_text(encoding="utf-8")
    said = re.search(r"          map\((.*?)\n          \)\[protocol_family\]", view, re.DOTALL)
    assert said is not None
    written = {
        family: dict(re.findall(r"'(\w+)', attributes\['([^']+)'\]", pairs))
        for family, pairs in re.findall(r"'([A-Z]+)', map\((.*?)\)(?:,|\Z)", said[1], re.DOTALL)
    }
    shared = {family: shared_options(family) for family in FAMILIES}
    assert written == {family: {one.name: str(one.pointer) for one in options} for family, options in shared.items() if options}
    replaced = re.findall(r"protocol_family = '(\w+)' AND attributes\['([^']+)'\] IS NOT NULL THEN '(\w+)'", view)
    assert sorted(replaced) == sorted(
        (family, str(one.instead), one.name) for family, options in shared.items() for one in options if one.instead
    )


def test_the_view_of_what_endpoints_carry_compares_protocols_as_the_tables_say():
    view = (data_folder("ddl") / "views" / "endpoint_messages.sql").read_text(encoding="utf-8")
    by_name = re.search(r"WHEN parts\.family IN \(([^)]*)\) THEN parts\.family", view)
    usual = re.search(r"coalesce\(parts\.version, map\(([^)]*)\)\[parts\.family\]", view)
    assert by_name is not None
    assert usual is not None
    assert set(re.findall(r"'(\w+)'", by_name[1])) == WITHOUT_VERSION
    assert dict(re.findall(r"'(\w+)', '([^']*)'", usual[1])) == shorthands()
