"""XML Schemas and JSON Structures: what a library takes is never refused, and most of what it refuses is found without one."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any
from xml.etree import ElementTree

import json_structure
import pytest
import xmlschema

from lakehouse.compatibility import check_format

XSD = "{http://www.w3.org/2001/XMLSchema}"
ORDER = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:t="urn:t" targetNamespace="urn:t">
  <xs:annotation><xs:documentation>Orders <b>here</b></xs:documentation></xs:annotation>
  <xs:simpleType name="Size"><xs:restriction base="xs:string"><xs:enumeration value="S"/></xs:restriction></xs:simpleType>
  <xs:simpleType name="Sizes"><xs:list itemType="t:Size"/></xs:simpleType>
  <xs:simpleType name="Either"><xs:union memberTypes="t:Size xs:int"/></xs:simpleType>
  <xs:attributeGroup name="common"><xs:attribute name="lang" type="xs:language" use="required"/></xs:attributeGroup>
  <xs:group name="who"><xs:sequence><xs:element name="customer" type="xs:string"/></xs:sequence></xs:group>
  <xs:complexType name="Line"><xs:sequence><xs:element name="isbn" type="xs:string"/>
    <xs:element name="size" type="t:Size" minOccurs="0" maxOccurs="3"/><xs:any minOccurs="0" processContents="lax"/></xs:sequence>
    <xs:attribute name="count" type="xs:positiveInteger" use="optional"/><xs:attributeGroup ref="t:common"/></xs:complexType>
  <xs:complexType name="Gift"><xs:complexContent><xs:extension base="t:Line"><xs:sequence>
    <xs:element name="text" type="xs:string"/></xs:sequence></xs:extension></xs:complexContent></xs:complexType>
  <xs:complexType name="Price"><xs:simpleContent><xs:extension base="xs:decimal">
    <xs:attribute name="currency" type="xs:string"/></xs:extension></xs:simpleContent></xs:complexType>
  <xs:element name="order"><xs:complexType><xs:sequence><xs:group ref="t:who"/>
    <xs:choice><xs:element name="line" type="t:Line" maxOccurs="unbounded"/><xs:element ref="t:note"/></xs:choice>
    <xs:element name="price" type="t:Price"/></xs:sequence></xs:complexType></xs:element>
  <xs:element name="note" type="xs:string" default="none"/>
</xs:schema>"""
XML_VALUES = ["", "1x", "xs:string", "xs:strin", "t:Size", "t:None", "q:Size", "t:note", "2", "0", "many", "required", "note"]
CHANGED = {"name", "type", "base", "ref", "minOccurs", "maxOccurs", "use", "itemType", "value", "memberTypes"}
XML_SCHEMAS = 60  # building one takes the library a while
PARCEL = {
    "$schema": "https://json-structure.org/meta/core/v0/#",
    "$id": "https://example.com/parcel",
    "name": "Parcel",
    "type": "object",
    "properties": {
        "id": {"type": "uuid"},
        "weight": {"type": "double"},
        "kind": {"type": "string", "enum": ["small", "large"]},
        "lines": {"type": "array", "items": {"type": {"$ref": "#/definitions/Line"}}},
        "tags": {"type": "set", "items": {"type": "string", "maxLength": 9}},
        "notes": {"type": "map", "values": {"type": ["string", "null"]}},
    },
    "required": ["id"],
    "definitions": {
        "Line": {"type": "object", "properties": {"isbn": {"type": "string"}}, "required": ["isbn"]},
        "Gift": {"type": "object", "$extends": "#/definitions/Line", "properties": {"text": {"type": "string"}}},
        "Place": {
            "type": "tuple",
            "name": "Place",
            "properties": {"x": {"type": "int32"}, "y": {"type": "int32"}},
            "tuple": ["x", "y"],
        },
        "Way": {"type": "choice", "choices": {"road": {"type": "string"}, "air": {"type": "int32"}}},
    },
}
JSON_VALUES: list[Any] = ["", "1x", "string", "int", {}, [], ["id"], ["zz"], -1, 3, True, None, {"type": "string"}, {"a b": {}}]
STRUCTURES = 1_500
LIBRARY_TAKES = ("True is not a number from 0 on", "or a reference that leads to none")  # the specification does not


def is_taken_by_xmlschema(text: str) -> bool:
    try:
        xmlschema.XMLSchema11(text)
    except (xmlschema.XMLSchemaException, LookupError, AttributeError, TypeError):  # it fails on some that are not valid
        return False
    return True


def is_taken_by_json_structure(schema: dict[str, Any]) -> bool:
    try:
        return not json_structure.SchemaValidator(extended=True).validate(schema)
    except (LookupError, AttributeError, TypeError):  # it fails on some that are not valid
        return False


def changed_xml(random: Random) -> str:
    """Return the schema with an element moved, removed or doubled, or with one attribute changed or removed."""
    root = ElementTree.fromstring(ORDER)
    places = [(parent, one) for parent in root.iter() for one in parent if one.tag.startswith(XSD) and "docu" not in one.tag]
    parent, node = random.choice(places)
    names = sorted(CHANGED & set(node.attrib))
    match random.choice(["move", "remove", "double", "set", "set", "delete"]):
        case "move":
            other = random.choice([one for one, _ in places])
            if other not in list(node.iter()):
                parent.remove(node)
                other.insert(random.randrange(len(other) + 1), node)
        case "remove":
            parent.remove(node)
        case "double":
            parent.append(copy.deepcopy(node))
        case "set" if names:
            node.set(random.choice(names), random.choice(XML_VALUES))
        case _ if names:
            del node.attrib[random.choice(names)]
    ElementTree.register_namespace("xs", XSD[1:-1])
    return ElementTree.tostring(root, encoding="unicode").replace("<xs:schema ", '<xs:schema xmlns:t="urn:t" ', 1)


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return each member of objects and lists: what holds it, and its name or index."""
    for at, inner in list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()):
        yield value, at
        yield from places_in(inner)


def changed_structure(random: Random) -> dict[str, Any]:
    """Return the schema with one member removed or changed."""
    made = copy.deepcopy(PARCEL)
    holder, at = random.choice([place for place in places_in(made) if place[1] not in ("$schema", "$id")])
    if random.random() < 0.3:
        del holder[at]
    else:
        holder[at] = random.choice(JSON_VALUES)
    return made


def test_xml_schemas_are_judged_as_the_library_judges_them():
    counts: Counter[tuple[bool, bool]] = Counter()
    for seed in range(XML_SCHEMAS):
        text = changed_xml(Random(seed))
        counts[is_taken_by_xmlschema(text), bool(check_format(text, "XSD/1.1").is_valid)] += 1
    assert counts[True, False] == 0
    assert counts[True, True] > XML_SCHEMAS / 5
    assert counts[False, False] > 3 * counts[False, True]


def test_json_structures_are_judged_as_the_library_judges_them():
    counts: Counter[tuple[bool, bool]] = Counter()
    for seed in range(STRUCTURES):
        schema = changed_structure(Random(seed))
        check = check_format(schema, "JsonStructure/1.0")
        if not check.reason.endswith(LIBRARY_TAKES):
            counts[is_taken_by_json_structure(schema), bool(check.is_valid)] += 1
    assert counts[True, False] == 0
    assert counts[True, True] > STRUCTURES / 10
    assert counts[False, False] > 3 * counts[False, True]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('itemType="t:Size"', "", "the list needs `itemType` or a type within"),
        ('name="Sizes"', 'name="Either"', "the type Either is declared twice"),
        ('base="t:Line"', 'base="t:Lines"', "the extension names the type Lines, which is not declared"),
        ('type="xs:language"', 'type="xs:lang"', "attribute lang names the type lang, which is not declared"),
        (
            'minOccurs="0" maxOccurs="3"',
            'minOccurs="4" maxOccurs="3"',
            "element size: at least 4 times is more than at most 3 times",
        ),
        ('ref="t:note"', "", "the element needs either a name or a `ref`"),
        (
            "<xs:complexContent>",
            "<xs:complexContent><xs:sequence/>",
            "the complexContent must not hold: sequence, extension",
        ),
    ],
)
def test_what_is_wrong_with_an_xml_schema_is_said(before, after, reason):
    assert check_format(ORDER, "XSD/1.1").is_valid
    assert check_format(ORDER.replace(before, after, 1), "XSD/1.1").reason == reason
