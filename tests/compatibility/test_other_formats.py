"""Protobuf, XML Schema and JSON Structure: where and whom a change breaks; `.proto` is read as its compiler reads it."""

from __future__ import annotations

import json

import pytest

from lakehouse.compatibility import Answer, compare, judge
from lakehouse.compatibility.protoschemas import ProtoFile
from lakehouse.match.payload.protobuf import compiled

PROTO = """
syntax = "proto3";
package shop; // of orders
message Order {
  reserved 7, 9 to 12; reserved "old";
  int32 id = 1; string buyer_name = 2; repeated Line lines = 3; map<string, int64> counts = 4;
  oneof payment { string card = 5; int32 cash = 6 [deprecated = true, json_name = "money"]; }
  message Line { double price = 1; Kind kind = 2; }
  enum Kind { NONE = 0; BOOK = 1; }
}
"""
XML = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="order"><xs:complexType><xs:sequence>
<xs:element name="id" type="xs:int"/><xs:element name="note" type="xs:string" minOccurs="0"/></xs:sequence>
<xs:attribute name="lang" use="required"/></xs:complexType></xs:element></xs:schema>"""
STRUCTURE = {
    "type": "object",
    "name": "Order",
    "properties": {"id": {"type": "int32"}, "n": {"type": "string"}},
    "required": ["id"],
}


def _in_structure(name, type_):
    return STRUCTURE | {"properties": STRUCTURE["properties"] | {name: {"type": type_}}}


@pytest.mark.parametrize(
    ("format", "before", "after", "pointer", "kind", "readers", "writers"),
    [
        ("Protobuf/3", PROTO, PROTO.replace("int32 id", "int64 id"), "/Order/id", "type-changed", "unknown", "no"),
        ("Protobuf/3", PROTO, PROTO.replace("int32 id", "string id"), "/Order/id", "type-changed", "yes", "yes"),
        ("Protobuf/3", PROTO, PROTO.replace("int32 id = 1;", ""), "/Order/id", "field-removed", "no", "no"),
        ("Protobuf/3", PROTO, PROTO.replace("repeated Line", "Line"), "/Order/lines", "type-changed", "no", "yes"),
        ("Protobuf/3", PROTO, PROTO.replace("double price", "float price"), "/Order/Line/price", "type-changed", "yes", "yes"),
        ("XSD/1.1", XML, XML.replace(' minOccurs="0"', ""), "/order/note", "became-required", "no", "yes"),
        ("XSD/1.1", XML, XML.replace("xs:int", "xs:long"), "/order/id", "type-changed", "yes", "no"),
        ("XSD/1.1", XML, XML.replace("xs:int", "xs:date"), "/order/id", "type-changed", "yes", "yes"),
        ("XSD/1.1", XML, XML.replace("sequence", "choice"), "/order", "content-changed", "unknown", "unknown"),
        ("JsonStructure", STRUCTURE, _in_structure("m", "string"), "/m", "field-added", "no", "no"),
        ("JsonStructure", STRUCTURE, STRUCTURE | {"required": ["id", "n"]}, "/n", "became-required", "no", "yes"),
        ("JsonStructure", STRUCTURE, _in_structure("id", "string"), "/id", "type-changed", "yes", "yes"),
        ("JsonStructure", STRUCTURE, STRUCTURE | {"$extends": "#/x"}, "", "condition-changed", "unknown", "unknown"),
    ],
)
def test_a_change_reports_where_and_whom_it_breaks(format, before, after, pointer, kind, readers, writers):
    found = [one for one in compare(before, after, format) if (one.pointer, one.kind) == (pointer, kind)]
    assert [one.breaks.as_json() for one in found] == [{"readers": readers, "writers": writers}]


@pytest.mark.parametrize(
    ("before", "after", "is_wider"),
    [
        ("int8", "int32", True),
        ("int8", "int64", False),
        ("int16", "decimal", False),
        ("uint8", "uint64", False),
        ("int64", "int128", True),
    ],
)
def test_integers_of_json_structure_that_are_text_read_no_numbers(before, after, is_wider):
    """`int64` and longer are written as text, shorter ones as numbers."""
    (found,) = compare(_in_structure("m", before), _in_structure("m", after), "JsonStructure")
    assert (found.breaks.as_json()["writers"] == "no") is is_wider


def _of_a(type_: str, **rest):
    """Return a JSON Structure with a definition A, of which one member has the type."""
    member = {"name": "A", "type": "object", "properties": {"x": {"type": type_}}}
    return {"type": "object", "name": "R", "definitions": {"A": member}} | rest


_A_REF = {"$ref": "#/definitions/A"}
_CHOICE = {"type": "choice", "choices": {"a": {"type": _A_REF}}}
_TUPLE_OF_A = {"type": "tuple", "properties": {"x": {"type": _A_REF}}, "tuple": ["x"]}


@pytest.mark.parametrize(
    ("rest", "pointer", "writers"),
    [
        pytest.param({"properties": {"a": {"type": ["null", _A_REF]}}}, "/a/x", "yes", id="one of two types"),
        pytest.param({"properties": {"a": {"type": [{"$ref": "#/definitions/B"}, _A_REF]}}}, "/a", "unknown", id="of two"),
        pytest.param({"properties": {"a": _CHOICE}}, "/a", "unknown", id="choices"),
        pytest.param({"properties": {"a": _TUPLE_OF_A}}, "/a", "unknown", id="tuple"),
        pytest.param({"$extends": "#/definitions/A", "properties": {}}, "", "unknown", id="extends"),
        pytest.param({"additionalProperties": {"type": _A_REF}}, "/*/x", "yes", id="additionalProperties"),
    ],
)
def test_a_change_of_what_a_json_structure_refers_to_is_seen(rest, pointer, writers):
    more = {"B": {"name": "B", "type": "object", "properties": {"y": {"type": "string"}}}}
    sides = [_of_a(type_, **rest) for type_ in ("string", "int32")]
    sides = [side | {"definitions": side["definitions"] | more} for side in sides]
    (found,) = compare(*sides, "JsonStructure/1.0")
    assert (found.pointer, found.breaks.as_json()["writers"]) == (pointer, writers)
    other = {"C": {"name": "C", "type": "string"}}  # nothing refers to it
    assert compare(sides[0], sides[0] | {"definitions": sides[0]["definitions"] | other}, "JsonStructure/1.0") == []


def test_a_member_of_a_tuple_of_json_structure_that_has_another_type_is_unknown():
    sides = [
        _in_structure("t", "tuple") | {"properties": {"t": {"type": "tuple", "properties": {"x": {"type": one}}, "tuple": ["x"]}}}
        for one in ("int32", "string")
    ]
    (found,) = compare(*(side | {"required": []} for side in sides), "JsonStructure/1.0")
    assert (found.pointer, found.breaks.as_json()) == ("/t", {"readers": "unknown", "writers": "unknown"})


@pytest.mark.parametrize(
    ("before", "after", "writers"),
    [
        (["null", _A_REF], ["null", {"$ref": "#/definitions/Same"}], "no"),
        (["null", _A_REF], ["null", "object"], "unknown"),
        (["null", _A_REF], ["null", "string"], "yes"),
        (["null", "string", _A_REF], ["null", _A_REF], "yes"),
        (["null", _A_REF], ["null", _A_REF, "string"], "no"),
    ],
)
def test_one_of_several_types_of_json_structure_is_compared_by_what_it_refers_to(before, after, writers):
    document = _of_a("string")
    document["definitions"]["Same"] = document["definitions"]["A"] | {"name": "Same"}
    old, new = (document | {"properties": {"a": {"type": one}}} for one in (before, after))
    judgement = judge(old, new, "JsonStructure/1.0")
    assert judgement.breaks.as_json()["writers"] == writers


def test_a_member_that_a_base_of_json_structure_may_require_is_unknown():
    base = {"B": {"abstract": True, "name": "B", "type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}}
    before = {"type": "object", "name": "R", "$extends": "#/definitions/B", "definitions": base, "properties": {}}
    judgement = judge(before, before | {"properties": {"x": {"type": "string"}}, "required": ["x"]}, "JsonStructure/1.0")
    assert judgement.breaks.as_json()["writers"] == "unknown"


def test_a_renamed_field_of_protobuf_breaks_json_alone():
    (found,) = compare(PROTO, PROTO.replace("buyer_name", "buyer"), "Protobuf")
    assert found.breaks.worst == Answer.NO
    assert found.strictly.as_json() == {"readers": "yes", "writers": "yes"}


def test_a_number_of_protobuf_that_is_free_or_was_reserved_is_said():
    def message(fields: str) -> str:
        return f'syntax = "proto3"; message M {{ string a = 1; {fields} }}'

    (gone,) = compare(message("string b = 2;"), message(""), "Protobuf")
    assert gone.what == "went: string, no. 2, and the number is not reserved"
    (kept,) = compare(message("string b = 2;"), message("reserved 2;"), "Protobuf")
    assert kept.what == "went: string, no. 2"
    (reused,) = compare(message("reserved 2 to 4;"), message("string b = 3;"), "Protobuf")
    assert (reused.what, reused.breaks.as_json()) == (
        "came: string, no. 3, which was reserved", {"readers": "no", "writers": "unknown"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("format", "schema"), [("Protobuf", PROTO), ("XSD", XML), ("JsonStructure", STRUCTURE), ("Avro", "int"), ("JsonSchema", {})]
)
def test_the_same_schema_differs_in_nothing(format, schema):
    assert compare(schema, schema, format) == []


@pytest.mark.parametrize(
    ("before", "after", "readers", "writers"),
    [
        ("int32 a = 1;", "oneof o { int32 a = 1; }", "no", "no"),  # one field: it is alone in it
        ("int32 a = 1; int32 b = 2;", "oneof o { int32 a = 1; int32 b = 2; }", "no", "yes"),
        ("oneof o { int32 a = 1; } int32 b = 2;", "oneof o { int32 a = 1; int32 b = 2; }", "no", "yes"),
        ("oneof p { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; int32 b = 2; }", "no", "no"),
    ],
)
def test_a_oneof_of_protobuf_breaks_writers_of_several_of_its_fields(before, after, readers, writers):
    found = compare(*(f'syntax = "proto3"; message M {{ {fields} }}' for fields in (before, after)), "Protobuf/3")
    assert {json.dumps(one.breaks.as_json()) for one in found} == {json.dumps({"readers": readers, "writers": writers})}


@pytest.mark.parametrize(
    ("before", "after", "readers", "writers"),
    [
        ("string a = 1;", "repeated string a = 1;", "yes", "no"),
        ("string a = 1;", "repeated int32 a = 1;", "yes", "yes"),
        ("string a = 1;", "repeated fixed64 a = 1;", "yes", "yes"),
        ("int64 a = 1;", "repeated int32 a = 1;", "yes", "unknown"),
        ("int32 a = 1;", "repeated int64 a = 1;", "yes", "no"),
        ("N a = 1; message N { string b = 1; }", "repeated O a = 1; message O { int32 b = 1; }", "yes", "yes"),
    ],
)
def test_a_field_of_protobuf_that_becomes_repeated_is_compared_by_its_type_too(before, after, readers, writers):
    old, new = (f'syntax = "proto3"; message M {{ {fields} }}' for fields in (before, after))
    judgement = judge(old, new, "Protobuf/3")
    assert judgement.breaks.as_json() == {"readers": readers, "writers": writers}


_ORDER, _MONEY = "message Order { string id = 1; }", "message Money { int64 units = 1; }"


@pytest.mark.parametrize(
    ("before", "after", "readers", "writers"),
    [
        pytest.param(_ORDER, f"{_MONEY} {_ORDER}", "no", "no", id="a helper above the payload"),
        pytest.param(_ORDER, f"package shop; {_MONEY} {_ORDER}", "no", "no", id="in another package"),
        pytest.param(_ORDER, f"{_ORDER} {_MONEY}", "no", "no", id="a helper below it"),
        pytest.param(_ORDER, _ORDER.replace("Order", "Offer"), "yes", "yes", id="another name"),
        pytest.param(f"{_ORDER} {_MONEY}", _MONEY, "no", "yes", id="the payload went"),
    ],
)
def test_a_message_of_protobuf_that_came_breaks_readers_only_in_place_of_the_payload(before, after, readers, writers):
    old, new = (f'syntax = "proto3"; {text}' for text in (before, after))
    judgement = judge(old, new, "Protobuf/3")
    assert judgement.breaks.as_json() == {"readers": readers, "writers": writers}


def test_the_reader_of_protobuf_finds_what_the_compiler_finds():
    own, _ = compiled(PROTO)
    read = ProtoFile(PROTO).messages
    order = own.message_type[0]
    assert {one.number: (one.name, one.json_name) for one in order.field} == {
        number: (one.name, one.json_name) for number, one in read["shop.Order"].fields.items()
    }
    assert set(read) == {"shop.Order", "shop.Order.Line"}


@pytest.mark.parametrize(
    "text", ["message", "message A {", "message A { int32 a; }", "edition = '2023';", "message A { } }", "§"]
)
def test_what_is_no_protobuf_is_undecided(text):
    (found,) = compare(PROTO, text, "Protobuf")
    assert (found.kind, found.breaks.worst) == ("undecided", Answer.UNKNOWN)


@pytest.mark.parametrize("schema", [("JsonStructure", {"type": "object"}), ("JsonSchema/draft-07", {})])
def test_a_value_with_braces_is_shown_as_it_is(schema):
    format, rest = schema
    (found,) = compare(rest | {"enum": [{"a": 1}, {}]}, rest | {"enum": [{}]}, format)
    assert (found.kind, found.what) == ("value-removed", 'value {"a":1} went')
    assert 'may write {"a":1}, which a consumer with the new schema' in found.reason


def test_entities_of_xml_are_not_read():
    hostile = '<!DOCTYPE x [<!ENTITY a "b">]>' + XML
    (found,) = compare(XML, hostile, "XSD")
    assert found.reason == "The schema has a DOCTYPE, which is not read."


def test_a_format_that_nobody_reads_is_unknown_unless_nothing_changed():
    assert judge("a", "a", "Thrift").differences == ()
    assert judge("a", "b", "Thrift").breaks.as_json() == {"readers": "unknown", "writers": "unknown"}


def _xsd(inner: str, attributes: str = "", *, more: str = "") -> str:
    root = f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:t="urn:t" targetNamespace="urn:t" {attributes}>'
    return f'{root}<xs:element name="r"><xs:complexType>{inner}</xs:complexType></xs:element>{more}</xs:schema>'


def _el(name: str, attributes: str = "", type_: str = "xs:string") -> str:
    return f'<xs:element name="{name}" type="{type_}" {attributes}/>'


def _in(kind: str, *held: str, attributes: str = "") -> str:
    return f"<xs:{kind} {attributes}>{''.join(held)}</xs:{kind}>"


_A, _B, _C = map(_el, "abc")
_A_OR_NOT, _ANY = _el("a", 'minOccurs="0"'), '<xs:any namespace="##other"/>'
_MANY = 'maxOccurs="unbounded"'
_ONE = _in("sequence", _A)
_OPTIONAL = 'minOccurs="0"'
_BASE = '<xs:complexType name="B"><xs:sequence>{}</xs:sequence></xs:complexType>'
_DERIVED = (
    '<xs:complexType name="D"><xs:complexContent><xs:extension base="t:B"><xs:sequence>{}</xs:sequence></xs:extension>'
    "</xs:complexContent></xs:complexType>"
)
_OF_BASE = '<xs:complexContent><xs:extension base="t:B"/></xs:complexContent>'
_SHORT = '<xs:simpleType name="{}"><xs:restriction base="{}"><xs:maxLength value="{}"/></xs:restriction></xs:simpleType>'
_KEY = '<xs:key name="k"><xs:selector xpath="a"/><xs:field xpath="."/></xs:key></xs:element>'
_OF_SHORT = _in("sequence", _el("a", type_="t:s"))


@pytest.mark.parametrize(
    ("before", "after", "pointer", "readers", "writers"),
    [
        pytest.param(_xsd(_in("all", _A, _B)), _xsd(_in("sequence", _A, _B)), "/r", "unknown", "unknown", id="all"),
        pytest.param(
            _xsd(_in("choice", _in("sequence", _A, _B), _in("sequence", _C))),
            _xsd(_in("choice", _in("sequence", _A), _in("sequence", _B, _C))),
            "/r", "unknown", "unknown", id="branches",
        ),
        pytest.param(
            _xsd(_in("sequence", _A, _el("b", _OPTIONAL), _el("c", _OPTIONAL))),
            _xsd(_in("sequence", _A, _in("sequence", _B, _C, attributes=_OPTIONAL))),
            "/r", "unknown", "unknown", id="together",
        ),
        pytest.param(_xsd(_in("sequence", _el("a", 'nillable="true"'))), _xsd(_ONE), "/r/a", "no", "yes", id="nillable"),
        pytest.param(_xsd(_ONE), _xsd(_in("sequence", _el("a", 'fixed="x"'))), "/r/a", "no", "yes", id="fixed"),
        pytest.param(
            _xsd('<xs:attribute name="k"/>'), _xsd('<xs:attribute name="k" use="prohibited"/>'), "/r/@k", "no", "no", id="use"
        ),
        pytest.param(
            _xsd(_ONE), _xsd(_ONE).replace('name="r"', 'name="r" abstract="true"'), "/r", "no", "yes", id="abstract"
        ),
        pytest.param(_xsd(_ONE), _xsd(_ONE, 'elementFormDefault="qualified"'), "", "unknown", "unknown", id="forms"),
        pytest.param(
            _xsd(_ONE), _xsd(_ONE).replace("</xs:element>", _KEY),
            "/r", "unknown", "unknown", id="key",
        ),
        pytest.param(
            _xsd(_in("sequence", _el("a", type_="xs:string")), more=_SHORT.format("string", "xs:token", 3)),
            _xsd(_in("sequence", _el("a", type_="t:string")), more=_SHORT.format("string", "xs:token", 3)),
            "/r/a", "unknown", "unknown", id="prefix",
        ),
        pytest.param(
            _xsd(_OF_BASE, more=_BASE.format(_A)), _xsd(_OF_BASE, more=_BASE.format(_A + _B)),
            "/r", "unknown", "unknown", id="base",
        ),
        pytest.param(
            _xsd(_OF_SHORT, more=_SHORT.format("s", "t:u", 9) + _SHORT.format("u", "xs:string", 9)),
            _xsd(_OF_SHORT, more=_SHORT.format("s", "t:u", 9) + _SHORT.format("u", "xs:string", 8)),
            "/r/a", "unknown", "unknown", id="base of a base",
        ),
        pytest.param(
            _xsd(_in("sequence", _A, _in("choice", _B, _C))), _xsd(_in("sequence", _in("choice", _B, _C), _A)),
            "/r", "unknown", "unknown", id="a choice moved",
        ),
        pytest.param(
            _xsd(_in("sequence", _A, _ANY)), _xsd(_in("sequence", _ANY, _A)), "/r", "unknown", "unknown", id="any moved"
        ),
        pytest.param(
            _xsd(_in("sequence", _A, _B, _ANY)), _xsd(_in("sequence", _ANY, _B, _A)), "/r", "unknown", "unknown", id="around any"
        ),
        pytest.param(
            _xsd(_in("sequence", _A_OR_NOT, _in("sequence", _B, _C, attributes=_MANY))),
            _xsd(_in("sequence", _in("sequence", _B, _C, attributes=_MANY), _A_OR_NOT)),
            "/r", "unknown", "unknown", id="what comes again moved",
        ),
        pytest.param(
            _xsd(_in("sequence", _A, _el("b", _OPTIONAL), attributes=_OPTIONAL)),
            _xsd(_in("sequence", _A, _B, attributes=_OPTIONAL)),
            "/r", "unknown", "unknown", id="required in an optional sequence",
        ),
        pytest.param(
            _xsd(_in("choice", _A_OR_NOT, _B)), _xsd(_in("choice", _A, _B)), "/r", "unknown", "unknown", id="required in a choice"
        ),
        pytest.param(
            _xsd(_in("sequence", _A_OR_NOT, _B, _A_OR_NOT)), _xsd(_in("sequence", _A, _B, _A_OR_NOT)),
            "/r", "unknown", "unknown", id="the first of two",
        ),
        pytest.param(
            _xsd(_in("sequence", _A_OR_NOT, _B, _A_OR_NOT, _C)), _xsd(_in("sequence", _A_OR_NOT, _B, _C, _A_OR_NOT)),
            "/r", "unknown", "unknown", id="the second of two moved",
        ),
        pytest.param(_xsd(_ONE, more=_DERIVED.format(_A)), _xsd(_ONE, more=_DERIVED.format(_A + _B)),
                     "/D", "unknown", "unknown", id="xsi:type"),
        pytest.param(_xsd(_ONE, more=_BASE.format(_A)), _xsd(_ONE, more=_BASE.format(_A) + _DERIVED.format(_B)),
                     "/D", "unknown", "no", id="a derived type"),
    ],
)  # fmt: skip
def test_what_xml_schema_changes_elsewhere_than_in_names_and_types(before, after, pointer, readers, writers):
    (found,) = compare(before, after, "XSD/1.1")
    assert (found.pointer, found.breaks.as_json()) == (pointer, {"readers": readers, "writers": writers})
    (back,) = compare(after, before, "XSD/1.1")
    assert back.breaks.as_json() == {"readers": writers, "writers": readers}
    assert compare(before, before, "XSD/1.1") == compare(after, after, "XSD/1.1") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(_in("all", _A, _B), _in("all", _B, _A), id="the order of what has none"),
        pytest.param(_in("choice", _A, _B), _in("choice", _B, _A), id="of a choice"),
        pytest.param(_in("sequence", _in("sequence", _A), _B), _in("sequence", _A, _B), id="a sequence in a sequence"),
    ],
)
def test_what_means_the_same_in_xml_schema_differs_in_nothing(before, after):
    assert compare(_xsd(before), _xsd(after), "XSD/1.1") == []


def _types_alone(*types: str) -> str:
    return f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{"".join(types)}</xs:schema>'


def test_a_schema_of_types_alone_says_what_changed_in_them_but_not_whom_it_breaks():
    before, after = (_types_alone(_BASE.format(held)) for held in (_A, _A + _B))
    (found,) = compare(before, after, "XSD/1.0")
    assert (found.pointer, found.what) == ("/B/b", "came: element, required")
    assert found.breaks.as_json() == {"readers": "no", "writers": "unknown"}
    (found,) = compare(before, _types_alone(), "XSD/1.0")
    assert (found.pointer, found.what, found.breaks.as_json()["writers"]) == ("/B", "type B went", "unknown")


def test_an_optional_element_that_comes_with_its_type_breaks_nobody():
    of_type = _el("b", _OPTIONAL, "t:B")
    judgement = judge(_xsd(_ONE), _xsd(_in("sequence", _A, of_type), more=_BASE.format(_C)), "XSD/1.0")
    assert judgement.breaks.as_json() == {"readers": "no", "writers": "no"}


def test_an_element_that_comes_a_second_time_in_xml_schema_is_unknown():
    judgement = judge(_xsd(_in("sequence", _A, _B)), _xsd(_in("sequence", _A, _B, _A_OR_NOT)), "XSD/1.0")
    assert judgement.breaks.as_json() == {"readers": "unknown", "writers": "unknown"}


@pytest.mark.parametrize(
    ("before", "after", "readers", "writers"),
    [
        ("int", "double", "yes", "no"),
        ("short", "float", "yes", "no"),
        ("float", "double", "unknown", "no"),
        ("int", "float", "yes", "unknown"),  # not all digits of an integer of 32 bits
        ("long", "double", "yes", "unknown"),
        ("decimal", "double", "yes", "unknown"),
        ("date", "double", "yes", "yes"),
        ("int", "token", "yes", "unknown"),
        ("normalizedString", "token", "no", "unknown"),
        ("string", "token", "no", "unknown"),
        ("string", "int", "no", "yes"),  # each value, as it is written, is a string
        ("string", "boolean", "no", "yes"),
        ("string", "dateTime", "no", "yes"),
        ("string", "anyURI", "unknown", "unknown"),
    ],
)
def test_a_built_in_type_of_xml_schema_that_reads_what_another_writes_does_not_break_it(before, after, readers, writers):
    (found,) = compare(*(_xsd(_in("sequence", _el("a", type_=f"xs:{name}"))) for name in (before, after)), "XSD/1.0")
    assert found.breaks.as_json() == {"readers": readers, "writers": writers}
