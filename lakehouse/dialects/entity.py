"""An entity in normal form, and what is noted about it while it is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lakehouse.dialects.coercions import COERCIONS, kind_of
from lakehouse.dialects.tables import Attribute
from lakehouse.text.names import Pointer
from lakehouse.text.problems import Problem


@dataclass(slots=True)
class Entity:
    """An entity in normal form.

    What is written in normal form already is not copied: the values of `known` may be those of the document.

    Attributes:
        known: attributes of the specification by normal name, without nulls; `meta` holds those of the meta object.
        extensions: all other attributes as written.
        children: collections by normal name: the key as written, and the value.
        pointers: for a known attribute that was spelled otherwise, the key as written.
        problems: what was found.
        spellings: how often each other spelling was met, as 'entity: spelled → normal'.
    """

    known: dict[str, Any] = field(default_factory=dict)
    extensions: dict[str, Any] = field(default_factory=dict)
    children: dict[str, tuple[str, Any]] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    spellings: dict[str, int] = field(default_factory=dict)


class Noting:
    """Notes what is found in an entity that is read: the `Teller` of the coercions."""

    def __init__(self, entity: str, pointer: Pointer) -> None:
        self.entity = entity
        self.pointer = pointer
        self.found = Entity()

    def coerce(self, attribute: Attribute, value: Any, where: str, path: str = "") -> Any:
        """Check the type of a value and bring it into normal form; None when it is refused or absent."""
        coerce = COERCIONS.get(attribute.type)
        if coerce is None:
            return value
        return coerce(self, attribute, value, where, path or attribute.name)

    def wrong(self, attribute: Attribute, value: Any, where: str, wanted: str) -> None:
        """Note an error: the value is of another type than the specification's."""
        self.told(
            where, attribute.rule, "error", f"`{attribute.name}` is {kind_of(value)} and must be {wanted}", f"Write {wanted}."
        )

    def leave_out(self, attribute: Attribute, value: Any, where: str, wanted: str) -> None:
        """Note an error that takes nothing out: the attribute is not in the normal form, and stays in `raw`."""
        left_out = f"`{attribute.name.split('.')[0]}` is left out"
        told = f"`{attribute.name}` is {'empty' if value == '' else kind_of(value)} and must be {wanted}; {left_out}"
        self.told(where, attribute.rule, "error", told, f"Write {wanted}.", kept=True)

    def warn(self, where: str, rule: str, message: str, hint: str) -> None:
        """Note a warning."""
        self.told(where, rule, "warning", message, hint)

    def told(self, where: str, rule: str, severity: str, message: str, hint: str, *, kept: bool = False) -> None:
        """Note what is wrong at a JSON Pointer below the entity."""
        self.found.problems.append(Problem(Pointer(self.pointer + where), rule, severity, message, hint, kept=kept))

    def respelled(self, spelled: str, normal: str) -> None:
        """Count a name or a value that was written otherwise."""
        met = f"{self.entity}: {spelled} → {normal}"
        self.found.spellings[met] = self.found.spellings.get(met, 0) + 1
