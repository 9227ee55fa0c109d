"""The effective definition of a message: a row of `effective_messages`, computed of the bodies of the entities alone.

The view `computed_messages`, and the views that it reads, compute the same for whole tables: tests compare them.
"""

from __future__ import annotations

from typing import Any

from lakehouse.dialects.tables import GUESSED, PROTOCOLS, family_of, protocol_version
from lakehouse.domain.bases import FlatAttributes
from lakehouse.domain.inferred import format_type, inferred_attributes, is_cloudevent
from lakehouse.domain.references import schema_places
from lakehouse.text.jsontext import pointer_of, read_canonical
from lakehouse.text.names import Pointer, Xid

# Attributes of CloudEvents that have a column, and whether each is required when nothing is said.
_CE = {"type": True, "source": True, "subject": False}
_LABELS = "/labels/"


def columns_of(attributes: FlatAttributes) -> dict[str, Any]:
    """Return the columns of `effective_messages` that follow from an effective definition alone.

    Args:
        attributes: the definition, with all that it inherits.
    """
    is_event = is_cloudevent(attributes)
    protocol = _text(attributes, "/protocol")
    uri = _text(attributes, "/dataschemauri")
    places = schema_places(uri) if uri is not None else []
    columns: dict[str, Any] = {
        name: _text(attributes, f"/{name}") for name in ("name", "description", "envelope", "dataschemaformat", "dataschemauri")
    }
    for name, by_default in _CE.items():
        required = _text(attributes, f"/envelopemetadata/{name}/required")
        columns[f"ce_{name}"] = _text(attributes, f"/envelopemetadata/{name}/value")
        columns[f"ce_{name}_required"] = (by_default if required is None else required == "true") if is_event else None
    return columns | {
        "labels": _labels(attributes),
        "protocol": protocol,
        "protocol_family": family_of(protocol),
        "protocol_version": None if protocol is None else protocol_version(protocol),
        "address": _address(attributes, family_of(protocol)),
        "kafka_key": _option(attributes, "key") or _option(attributes, "key_base64"),
        "http_method": _option(attributes, "method"),
        "http_status": _option(attributes, "status"),
        "schema_xid": _text(attributes, "/dataschemaxid") or (places[-1].schema if places else None),
        "datacontenttype": _text(attributes, "/datacontenttype") or format_type(attributes),
        "attributes": dict(attributes),
        "inferred": inferred_attributes(attributes),
    }


def _labels(attributes: FlatAttributes) -> dict[str, str | None] | None:
    names = [pointer for pointer in attributes if pointer.startswith(_LABELS)]
    result = {name[len(_LABELS) :].replace("~1", "/").replace("~0", "~"): _text(attributes, name) for name in names}
    return result or None


def _address(attributes: FlatAttributes, family: str | None) -> str | None:
    """Return where the protocol sends a message; of one without a known protocol the first option that is an address."""
    families = [family] if family in PROTOCOLS else GUESSED
    results = (_option(attributes, *PROTOCOLS[family_name].address.split("/")) for family_name in families)
    return next((address for address in results if address is not None), None)


def _option(attributes: FlatAttributes, *names: str) -> str | None:
    return _text(attributes, pointer_of("protocoloptions", *names, "value"))


def _text(attributes: FlatAttributes, pointer: str) -> str | None:
    """Return a leaf as a column has it: a text without its quotes, anything else as JSON text; None: it is not there, or null."""
    leaf = attributes.get(Pointer(pointer))
    if leaf is None or leaf == "null":
        return None
    return str(read_canonical(leaf)) if leaf.startswith('"') else leaf


def xid_parts(message: Xid) -> dict[str, str]:
    """Return the columns that follow from the XID of a message: of its group or endpoint, and its own id there."""
    group, _, messageid = message.rsplit("/", 2)
    return {"group_xid": group, "messageid": messageid}
