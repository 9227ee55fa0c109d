"""XML payloads are made up from XML Schema: valid, the same for the same seed, and rendered as text."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from match.catalogs import SAMPLES, load

from lakehouse.match.payload.schemas import Resolved, Schemas, SchemaVersion
from lakehouse.match.payload.xsd import XsdValidator
from lakehouse.render import Renderer, RenderStyle, bindings_of
from lakehouse.render.example.plausible import Impossible, Plausible
from lakehouse.render.example.xsdexample import XsdExample
from render.definitions import NOW, cloudevent, matched, row


def schema(body: str, head: str = "") -> str:
    return f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" {head}>{body}</xs:schema>'


def restricted(base: str, *facets: str) -> str:
    return (
        f'<xs:element name="e"><xs:simpleType><xs:restriction base="xs:{base}">'
        + "".join(f"<xs:{one}/>" for one in facets)
        + "</xs:restriction></xs:simpleType></xs:element>"
    )


def complex_type(content: str, attributes: str = "") -> str:
    return f'<xs:element name="e"><xs:complexType>{content}{attributes}</xs:complexType></xs:element>'


def element(name: str, more: str = "") -> str:
    return f'<xs:element name="{name}" type="xs:int" {more}/>'


def sequence(*content: str) -> str:
    return f"<xs:sequence>{''.join(content)}</xs:sequence>"


TYPES = [
    "string", "normalizedString", "token", "language", "NMTOKEN", "Name", "NCName", "anyURI", "boolean", "decimal", "float",
    "double", "integer", "int", "long", "short", "byte", "unsignedByte", "positiveInteger", "negativeInteger", "date", "time",
    "dateTime", "duration", "gYear", "gYearMonth", "gMonth", "gMonthDay", "gDay", "hexBinary", "base64Binary", "QName",
    "NMTOKENS", "anySimpleType",
]  # fmt: skip
NODE = '<xs:complexType name="t">' + sequence(element("v"), '<xs:element name="n" type="t" minOccurs="0"/>') + "</xs:complexType>"
REFERRING = '<xs:element name="e" type="t"/>'
ABSTRACT = element("h", 'abstract="true"') + element("i", 'substitutionGroup="h"')
SCHEMAS = [
    *(schema(f'<xs:element name="e" type="xs:{one}"/>') for one in TYPES),
    *(schema(one) for one in (
        restricted("string", 'pattern value="[A-Z]{2}-\\d{3,5}"'),
        restricted("string", 'minLength value="30"', 'maxLength value="31"'),
        restricted("string", 'enumeration value="a"', 'enumeration value="b"'),
        restricted("int", 'minInclusive value="7"', 'maxExclusive value="9"'),
        restricted("decimal", 'totalDigits value="3"', 'fractionDigits value="1"'),
        restricted("double", 'minExclusive value="0"', 'maxInclusive value="0.5"'),
        restricted("string", 'length value="4"'),
        '<xs:element name="e"><xs:simpleType><xs:list itemType="xs:int"/></xs:simpleType></xs:element>',
        '<xs:element name="e"><xs:simpleType><xs:union memberTypes="xs:int xs:date"/></xs:simpleType></xs:element>',
        element("e", 'fixed="5"'),
        complex_type(sequence(element("a", 'minOccurs="2" maxOccurs="4"'), '<xs:any minOccurs="0"/>'),
                     '<xs:attribute name="k" type="xs:date" use="required"/><xs:attribute name="o" fixed="1"/>'),
        complex_type("<xs:all>" + element("a") + element("b", 'minOccurs="0"') + "</xs:all>"),
        complex_type(f"<xs:choice>{element('a')}{sequence(element('b'))}</xs:choice>"),
        complex_type('<xs:simpleContent><xs:extension base="xs:int"><xs:attribute name="u"/></xs:extension></xs:simpleContent>'),
        NODE + REFERRING,
        f'<xs:group name="g">{sequence(element("a"))}</xs:group>' + complex_type('<xs:group ref="g"/>'),
        ABSTRACT + complex_type(sequence('<xs:element ref="h"/>')),
    )),
    schema(element("e"), 'targetNamespace="urn:n" elementFormDefault="qualified"'),
]  # fmt: skip


def validator(text: str) -> XsdValidator:
    return XsdValidator(text, Resolved("x", "XSD/1.1", text), lambda _: None)


@pytest.mark.parametrize("text", SCHEMAS, ids=range(len(SCHEMAS)))
@pytest.mark.parametrize("level", [0, 2, 9])
def test_what_is_made_up_is_valid(text, level):
    made = validator(text)
    for seed in range(5):
        body, again = (XsdExample(made.schema, Plausible(Random(seed), level)).make() for _ in range(2))
        assert body == again
        assert made.errors(made.decode(body, None, "application/xml").value) == [], body


def test_what_cannot_be_made_up_says_why():
    endless = NODE.replace(' minOccurs="0"', "") + REFERRING
    for text, reported in ((schema(endless), "too much"), (schema(""), "no element"),
                       (schema(restricted("string", 'pattern value="ab"', 'length value="9"')), "no text")):  # fmt: skip
        with pytest.raises(Impossible, match=reported):
            XsdExample(validator(text).schema, Plausible(Random(1))).make()


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_a_message_with_an_xml_payload_comes_back(mode):
    xid = "/schemagroups/g/schemas/s"
    text = json.dumps(schema(complex_type(sequence(element("id")))))
    versions = [SchemaVersion("r", f"{xid}/versions/1", xid, True, "XSD/1.0", text)]
    message: dict[str, Any] = cloudevent("KAFKA", {"topic": {"value": "t"}})
    message |= {"dataschemauri": xid, "dataschemaformat": "XSD/1.0"}
    [way] = bindings_of(row(message))
    made = Renderer(Schemas(versions), RenderStyle(mode, example=True, seed=1, now=NOW)).render(way)
    assert made.payload_status == "valid"
    [found] = matched([row(message)], versions, [made.line()])
    assert (found["status"], found["payload_status"]) == ("matched", "valid")


@pytest.mark.skipif(not (SAMPLES / "spec").is_dir(), reason="the published samples are not next to this checkout")
def test_published_definitions_with_xml_payloads():
    rows, schemas = load({"s": (SAMPLES / "spec" / "smartoven-xsd.xreg.json").read_bytes()})
    renderer = Renderer(Schemas(schemas), RenderStyle(example=True, seed=1, now=NOW))
    made = [renderer.render(way) for one in rows for way in bindings_of(one)]
    assert [one.payload_status for one in made] == ["valid"] * 5
