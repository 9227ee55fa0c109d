"""Bases: which Version a name means, how chains end, and what is inherited, against the oracle and results written by hand."""

from __future__ import annotations

from typing import Any

import pytest
from log.test_flattening import BY_HAND, chain, forest, leaves, nested, one, shapes
from oracle import Catalog, flatten

from lakehouse.domain.bases import base_of, bases_of, chain_of, merged, shown_version

REGISTRIES: dict[str, Catalog] = {f"forest{seed}": forest(seed) for seed in (1, 2, 3)}
REGISTRIES |= {"shapes": shapes()} | {name: chain(*definitions) for name, (definitions, _) in BY_HAND.items()}
G = "/messagegroups/g/messages"


def finder(catalog: Catalog):
    """Return the function that finds attributes in a catalog of the oracle."""
    known: dict[str, Any] = {}
    for xid, message in catalog.items():
        known[xid] = {"xref": message["xref"]} if "xref" in message else {"defaultversionid": message["default"]}
        for versionid, definition in message.get("versions", {}).items():
            known[f"{xid}/versions/{versionid}"] = definition
    return known.get


@pytest.mark.parametrize("name", REGISTRIES)
def test_chains_and_what_is_inherited_are_as_the_oracle_says(name):
    find = finder(REGISTRIES[name])
    for xid in REGISTRIES[name]:
        version = shown_version(xid, find)
        status, definition = flatten(REGISTRIES[name], xid)
        if version is None or find(version) is None:
            assert status == "dangling"
            continue
        found = chain_of(version, find, 128)
        assert (xid, found.status) == (xid, status)
        followed = found.versions[:1] if status == "cycle" else found.versions
        own = [{at: leaf for at, leaf in leaves(dict(find(one))).items() if at != "/basemessage"} for one in followed]
        assert (xid, nested(merged(own))) == (xid, definition)


def test_what_a_base_means():
    catalog = {
        f"{G}/m": {"default": "2", "versions": {"1": {}, "2": {}}},
        f"{G}/al": {"xref": f"{G}/m"},
        f"{G}/of-alias": {"xref": f"{G}/al"},
    }
    find = finder(catalog)
    assert base_of(f"{G}/m", find) == f"{G}/m/versions/2"
    assert base_of(f"{G}/m/versions/1", find) == f"{G}/m/versions/1"
    assert base_of(f"{G}/al", find) == f"{G}/m/versions/2"
    assert base_of(f"{G}/al/versions/1", find) == f"{G}/m/versions/1"
    assert base_of(f"{G}/m/versions/none", find) == f"{G}/m/versions/none"  # it may come later
    for nothing in (None, 1, "https://a.example/m", f"{G}/none", f"{G}/of-alias", "/schemagroups/g/schemas/s"):
        assert base_of(nothing, find) is None


def test_a_chain_that_comes_back_over_an_alias():
    catalog = {f"{G}/m": one({}, basemessage=f"{G}/al/versions/1"), f"{G}/al": {"xref": f"{G}/m"}}
    find = finder(catalog)
    assert list(bases_of(f"{G}/m/versions/1", find)) == [f"{G}/m/versions/1"]
    assert chain_of(f"{G}/m/versions/1", find, 128).status == "cycle"


@pytest.mark.parametrize(("most", "expected"), [(3, "resolved"), (2, "too_deep")])
def test_a_chain_is_followed_as_far_as_a_setting_says(most, expected):
    catalog = chain({}, {}, {}, {})
    find, first = finder(catalog), next(iter(catalog))
    assert chain_of(shown_version(first, find), find, most).status == expected
