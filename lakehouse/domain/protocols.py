"""Whether two protocols are the same, and whether one envelope is another or a more precise one (requirements.md 22, 23).

Where Spark or a view has to decide the same in SQL, `tests/domain/test_protocol_names.py` compares it with these functions.
"""

from __future__ import annotations

from functools import lru_cache

from lakehouse.dialects.tables import FAMILIES, family_of, protocol_version, shorthands

# Families of which one version is as good as another: HTTP, KAFKA, NATS.
WITHOUT_VERSION = frozenset(FAMILIES) - frozenset(shorthands())


@lru_cache(maxsize=1000)
def protocol_key(name: str | None) -> str | None:
    """Return the text by which protocols are compared: two with the same key are one protocol (END-090, END-092, END-096).

    `mqtt`, `MQTT/5` and `MQTT /5.0` have one key, `MQTT/5`. None: no protocol is named.
    """
    family = family_of(name)
    if family is None or family in WITHOUT_VERSION:
        return family
    return f"{family}/{(protocol_version(name or '') or '').removesuffix('.0')}"


def is_other_protocol(protocol: str | None, other: str | None) -> bool:
    """Return whether both name a protocol, and not the same one (MSG-134, END-096)."""
    keys = protocol_key(protocol), protocol_key(other)
    return None not in keys and keys[0] != keys[1]


def has_other_options(protocol: str | None, other: str | None) -> bool:
    """Return whether protocols have other options, so that none are inherited: of MQTT the version counts too."""
    families = family_of(protocol), family_of(other)
    if None in families:
        return False
    return families[0] != families[1] or (families[0] == "MQTT" and is_other_protocol(protocol, other))


def is_other_envelope(envelope: str | None, other: str | None) -> bool:
    """Return whether two envelopes differ; one that names no version is less precise, and the same (MSG-127)."""
    if not envelope or not other:
        return False
    (name, _, version), (other_name, _, other_version) = envelope.partition("/"), other.partition("/")
    return name.upper() != other_name.upper() or bool(version and other_version and version != other_version)


def nearer_envelope(inherited: str | None, own: str | None) -> str | None:
    """Return the envelope of a definition with a base: its own; where that names no version, the inherited one of that name."""
    if not own or not inherited or is_other_envelope(inherited, own):
        return own or inherited
    return own if own.partition("/")[2] else inherited


def is_as_precise(envelope: str | None, of_endpoint: str | None) -> bool:
    """Return whether a message's envelope is the endpoint's or a more precise one; also where either names none (END-074)."""
    if envelope is None or of_endpoint is None:
        return True
    own, expected = envelope.lower(), of_endpoint.lower()
    return own == expected or own.startswith((f"{expected}/", f"{expected}.", f"{expected}-"))
