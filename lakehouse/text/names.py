"""Types of strings that are not just strings, so that mypy finds one that is used in place of another."""

from __future__ import annotations

from typing import NewType

RegistryId = NewType("RegistryId", str)
Xid = NewType("Xid", str)  # of an entity in its registry: `/messagegroups/g/messages/m`; `/` is the registry itself
Pointer = NewType("Pointer", str)  # a JSON Pointer (RFC 6901): a place in a document or an entity; "" is all of it
JsonText = NewType("JsonText", str)  # a value as JSON text: a leaf of `attributes`, an entity in `body`

REGISTRY = Xid("/")
NO_XID = Xid("")  # of findings about a document, and not about an entity
ROOT = Pointer("")
