from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from builders import MAX_DEPTH, found, json_values, law
from hypothesis import given
from hypothesis import strategies as st
from jiter import LosslessFloat

from lakehouse.text.jsontext import (
    NotJson,
    as_written,
    canonical,
    canonical_text,
    pointer_of,
    read_canonical,
    read_exactly,
    read_json,
    unquoted,
)
from lakehouse.text.problems import BYTE_ORDER_MARK, DUPLICATE_KEY

HUGE = 2**70


def value_of(text: str | bytes, max_depth: int = MAX_DEPTH) -> Any:
    return read_json(text.encode() if isinstance(text, str) else text, max_depth)[0]


def problems_of(text: str) -> list[tuple[str, str, str]]:
    return found(read_json(text.encode(), MAX_DEPTH)[1])


# What is refused


@pytest.mark.parametrize(
    ("text", "reported", "hint"),
    [
        (b'{"a": 1,\n "b": tru\n}', "expected ident at line 2 column 10", "Fix the text at that place"),
        (b'{"a": 1,\n "b": "x\ny"}', "at line 2 column 9", "Fix"),
        (b'{"a": 1,\n', "at line 1 column 9", "Fix"),
        (b'{"a": 1,\n "b": "\xff"}', "not UTF-8: the byte 0xff at line 2 column 8", "Save it as UTF-8"),
        (b'{"a": 1,\n "a": NaN}', "expected value at line 2 column 7", "Fix"),
        (b'{"a": 1,\n "a": 1, "b": "\xff"}', "the byte 0xff at line 2 column 16", "Save it as UTF-8"),
        (b"a: 1", "at line 1 column 1", "If it is YAML, let its name end in .yaml"),
        (b"[" * 70 + b"]" * 70, "deeper than 64 levels", "Nest less, or raise"),
    ],
)
def test_what_is_no_json_reports_its_place_and_how_to_fix_it(text, reported, hint):
    with pytest.raises(NotJson) as refused:
        read_json(text, 64)
    assert reported in str(refused.value)
    assert refused.value.hint.startswith(hint)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"{",
        b'{"a":1,}',
        b"[1,]",
        b"{'a':1}",
        b"{a:1}",
        b'{"a":1} {}',
        b'{"a":1}// told',
        b"[01]",
        b"[+1]",
        b"[.5]",
        b"[1.]",
        b"nul",
        b'["\x01"]',
        b'["\\x41"]',
        b"[1",
    ],
)
def test_text_that_is_no_json_is_refused(text):
    with pytest.raises(NotJson, match="not JSON"):
        value_of(text)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_constants_of_python_are_no_json(constant):
    with pytest.raises(NotJson, match="not JSON"):
        value_of(f'{{"a":{constant}}}')


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_constants_of_python_are_refused_beside_a_duplicate_key_too(constant):
    with pytest.raises(NotJson, match="not JSON"):
        value_of(f'{{"k":1,"k":1,"a":{constant}}}')


@pytest.mark.parametrize("text", ['{"a":"é"}'.encode("latin-1"), '{"a":"x"}'.encode("utf-16"), b'{"a":"\xed\xa0\x80"}'])
def test_text_that_is_not_utf_8_is_refused(text):
    with pytest.raises(NotJson):
        value_of(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"k":1,"k":1,"a":"\xed\xa0\x80"}', id="bytes of a lone surrogate"),
        pytest.param(b'{"k":1,"k":1,"a":"\\ud800"}', id="escaped lone surrogate"),
        pytest.param(b'{"k":1,"k":1,"a":"\xe9"}', id="latin-1"),
        pytest.param(b'{"k":1,"k":1,"a":"\x01"}', id="control character"),
        pytest.param(b'{"k":1,"k":1,"a":[1,]}', id="trailing comma"),
    ],
)
def test_the_second_reading_of_a_document_with_duplicate_keys_is_as_strict(text):
    with pytest.raises(NotJson):
        value_of(text)


def test_a_lone_surrogate_is_refused():
    with pytest.raises(NotJson):
        value_of(r'{"a":"\ud800"}')


def test_a_surrogate_pair_is_one_character():
    assert value_of(r'["\ud83d\ude00"]') == ["\U0001f600"]


# Byte order mark


def test_a_byte_order_mark_is_stripped_with_a_warning():
    value, problems = read_json(b'\xef\xbb\xbf{"a":1}', MAX_DEPTH)
    assert value == {"a": 1}
    assert found(problems) == [("", BYTE_ORDER_MARK, "warning")]


def test_a_second_byte_order_mark_is_no_json():
    with pytest.raises(NotJson):
        value_of(b"\xef\xbb\xbf\xef\xbb\xbf{}")


def test_a_byte_order_mark_and_a_duplicate_key_are_both_reported():
    _, problems = read_json(b'\xef\xbb\xbf{"a":1,"a":1}', MAX_DEPTH)
    assert found(problems) == [("", BYTE_ORDER_MARK, "warning"), ("/a", DUPLICATE_KEY, "warning")]


# Duplicate keys


def test_a_key_that_stands_twice_with_one_value_is_a_warning():
    assert problems_of('{"a":{"b":1,"b":1}}') == [("/a/b", DUPLICATE_KEY, "warning")]


def test_a_key_that_stands_twice_with_different_values_is_an_error():
    assert problems_of('{"a":{"b":1,"b":2}}') == [("/a/b", DUPLICATE_KEY, "error")]


def test_a_duplicate_key_counts_once_with_its_first_value():
    assert value_of('{"a":1,"a":2}') == {"a": 1}


def test_the_message_reports_how_often_a_key_stands_and_raw_reports_the_values():
    (problem,) = read_json(b'{"a":1,"a":2,"a":1.50}', MAX_DEPTH)[1]
    assert "'a' occurs 3 times" in problem.message
    assert problem.raw == "[1,2,1.50]"


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ('{"a":{"x":1,"y":2},"a":{"y":2,"x":1}}', "warning"),
        ('{"a":1.10,"a":1.1}', "warning"),
        ('{"a":"\\u0041","a":"A"}', "warning"),
        ('{"a":[1,2],"a":[2,1]}', "error"),
        ('{"a":1,"a":true}', "error"),
        ('{"a":null,"a":0}', "error"),
        ('{"a":"1","a":1}', "error"),
    ],
)
def test_values_are_the_same_when_they_mean_the_same(text, severity):
    assert [severity_ for _, _, severity_ in problems_of(text)] == [severity]


def test_a_key_is_compared_after_its_escapes_are_resolved():
    assert problems_of('{"a":1,"\\u0061":2}') == [("/a", DUPLICATE_KEY, "error")]


def test_a_duplicate_key_is_found_inside_arrays_and_its_pointer_is_escaped():
    assert problems_of('{"a":[{}, {"x/y~z":1,"x/y~z":2}]}') == [("/a/1/x~1y~0z", DUPLICATE_KEY, "error")]


def test_every_duplicate_key_is_reported():
    assert problems_of('{"a":1,"a":1,"b":{"c":1,"c":2}}') == [
        ("/a", DUPLICATE_KEY, "warning"),
        ("/b/c", DUPLICATE_KEY, "error"),
    ]


def test_equal_keys_in_different_objects_are_no_duplicates():
    assert problems_of('[{"a":1},{"a":2}]') == []


def test_a_duplicate_key_whose_number_no_double_holds_does_not_break_the_reading():
    try:
        problems = problems_of('{"a":1e400,"a":1}')
    except NotJson:
        return
    assert problems == [("/a", DUPLICATE_KEY, "error")]


def test_numbers_keep_their_spelling_in_a_document_with_duplicate_keys():
    assert as_written(value_of('{"a":1.10,"b":2,"b":2}')) == '{"a":1.10,"b":2}'


# Depth


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def test_as_many_levels_as_allowed_are_read():
    assert value_of(nested(5), max_depth=5) == [[[[[]]]]]


@pytest.mark.parametrize("text", [nested(6), '{"a":' * 6 + "1" + "}" * 6, '{"k":1,"k":1,"a":' + nested(5) + "}"])
def test_one_level_more_is_refused(text):
    with pytest.raises(NotJson, match=r"deeper than 5 levels .*max_json_depth"):
        value_of(text, max_depth=5)


@pytest.mark.parametrize("levels", [201, 260, 100_000])
def test_any_depth_beyond_is_refused_with_the_name_of_the_setting(levels):
    with pytest.raises(NotJson, match="max_json_depth"):
        value_of(nested(levels), max_depth=200)


def test_any_depth_beyond_is_refused_with_the_name_of_the_setting_beside_a_duplicate_key():
    with pytest.raises(NotJson, match="max_json_depth"):
        value_of('{"a":1,"a":1,"b":' + nested(100_000) + "}", max_depth=200)


def test_brackets_inside_strings_are_no_levels():
    assert value_of(json.dumps(['[[[[{"\\', '\\"[[[[', "]]]][[[["]), max_depth=1)


def test_many_shallow_objects_are_not_deep():
    assert len(value_of("[" + ",".join(["{}"] * 1000) + "]", max_depth=2)) == 1000


def depth_of(value: Any) -> int:
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if members is None else 1 + max(map(depth_of, members), default=0)


@law
@given(st.lists(json_values), st.booleans())
def test_the_limit_is_the_depth_of_the_value(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    depth = depth_of(value)
    assert value_of(text, depth) is not None
    with pytest.raises(NotJson, match="deeper than"):
        value_of(text, depth - 1)


# Numbers


@pytest.mark.parametrize(
    ("number", "in_body"),
    [
        ("1.10", "1.1"),
        ("1.0", "1.0"),
        ("100", "100"),
        ("0.1", "0.1"),
        ("0.30000000000000004", "0.30000000000000004"),
        ("0.1000000000000000055511151231257827", "0.1"),
        ("-1.50", "-1.5"),
        ("1E2", "100.0"),
        ("9007199254740993", "9007199254740993"),
        ("9223372036854775808", "9223372036854775808"),
        ("18446744073709551616", "18446744073709551616"),
        ("-18446744073709551616", "-18446744073709551616"),
        ("1e-400", "0.0"),
    ],
)
def test_a_number_keeps_its_spelling_in_raw_and_is_normal_in_the_body(number, in_body):
    value = value_of(f'{{"n":{number}}}')
    assert as_written(value) == f'{{"n":{number}}}'
    assert canonical(value).decode() == f'{{"n":{in_body}}}'


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 310 + ".0"])
def test_a_number_outside_the_doubles_overflows_in_the_body_and_stays_in_raw(number):
    value = value_of(f"[{number}]")
    with pytest.raises(OverflowError, match="outside the range of a double"):
        canonical(value)
    assert as_written(value) == f"[{number}]"


def test_a_number_outside_the_doubles_overflows_beside_a_big_integer_too():
    with pytest.raises(OverflowError):
        canonical(value_of(f"[{HUGE},1e400]"))


def test_raw_keeps_every_spelling_beside_a_big_integer():
    text = f'{{"big":{HUGE},"price":1.10,"far":1e400}}'
    assert as_written(value_of(text)) == text


def test_an_integer_of_thousands_of_digits_is_refused_or_exact():
    text = "[" + "9" * 5000 + "]"
    try:
        value = value_of(text)
    except NotJson:
        return
    assert canonical(value).decode() == text


def test_an_integer_of_thousands_of_digits_beside_a_duplicate_key_is_refused_or_exact():
    text = '{"a":1,"a":1,"n":' + "9" * 5000 + "}"
    try:
        value = value_of(text)
    except NotJson:
        return
    assert canonical(value).decode() == text.replace('"a":1,"a":1', '"a":1')


EXACT = {
    "more than 64 bits": "123456789012345678901234567890",
    "one more than the largest of orjson": "18446744073709551616",
    "one less than the smallest of orjson": "-9223372036854775809",
    "as many bits as orjson reads": "18446744073709551615",
    "more than a double holds": "1" + "0" * 400,
    "a fraction": "0.12345678901234567890123",
}


@pytest.mark.parametrize("number", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("text", ["{}", '{{"a": [1, {{"n": {}}}], "t": "ä"}}'])
def test_read_exactly_keeps_all_digits_of_integers(number, text):
    written = text.format(number)
    assert read_exactly(written.encode()) == json.loads(written)


def test_read_exactly_reads_an_integer_below_many_levels_as_a_double():
    assert read_exactly(b"[" * 300 + str(HUGE).encode() + b"]" * 300)


@pytest.mark.parametrize("text", ["{}, ", "[{}, NaN]", "[{}, 1e400]", "[{}, -1e400]", '[{}, "\\ud800"]', "[{}", "0{}", "[{},]"])
def test_read_exactly_refuses_what_is_no_json_with_an_integer_of_any_size(text):
    for number in ("1", HUGE):
        with pytest.raises(orjson.JSONDecodeError):
            read_exactly(text.format(number).encode())


@law
@given(json_values)
def test_read_exactly_reads_what_json_reads(value):
    text = json.dumps(value)
    assert json.dumps(read_exactly(text.encode())) == text


# Canonical and as written


def test_canonical_sorts_keys_at_all_levels_and_leaves_arrays():
    assert canonical(value_of('{"b":[2,1],"a":{"d":1,"c":null}}')) == b'{"a":{"c":null,"d":1},"b":[2,1]}'


def test_canonical_beside_a_big_integer_is_the_same_writing():
    assert canonical({"é": [HUGE, "é\n"], "a": None}).decode() == f'{{"a":null,"é":[{HUGE},"é\\n"]}}'


def test_as_written_keeps_the_order_of_keys_and_drops_blanks():
    assert as_written(value_of('{ "b" : 1,\n "a" : [ ] }')) == '{"b":1,"a":[]}'


@pytest.mark.parametrize(
    ("text", "plain"),
    [('""', ""), ('"a\\"\\u00e9"', 'a"é'), ("null", "null"), (str(HUGE), str(HUGE)), ('{"a":"b"}', '{"a":"b"}')],
)
def test_a_text_alone_loses_its_quotes(text, plain):
    assert unquoted(text) == plain


@pytest.mark.parametrize("text", ['"cut', '"', '"\\ud800"'])
def test_what_begins_with_a_quote_is_a_json_text(text):
    with pytest.raises(orjson.JSONDecodeError):
        unquoted(text)


def test_canonical_refuses_what_is_no_json_value():
    with pytest.raises(TypeError):
        canonical({"a": object()})


@law
@given(json_values)
def test_canonical_of_canonical_is_the_same(value):
    text = canonical(value)
    assert canonical(read_json(text, MAX_DEPTH)[0]) == text


@law
@given(json_values)
def test_canonical_keeps_the_value(value):
    assert json.loads(canonical(value)) == value


@law
@given(st.dictionaries(st.text(alphabet=st.characters(exclude_categories=["Cs"])), json_values))
def test_canonical_does_not_depend_on_the_order_of_keys(value):
    assert canonical(dict(reversed(value.items()))) == canonical(value)


@law
@given(json_values)
def test_as_written_gives_back_what_was_read(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert json.loads(as_written(value_of(text))) == value
    assert as_written(value_of(as_written(value_of(text)))) == as_written(value_of(text))


# Pointers


@pytest.mark.parametrize(
    ("tokens", "pointer"),
    [((), ""), (("a", "b"), "/a/b"), (("",), "/"), (("a/b",), "/a~1b"), (("m~n",), "/m~0n"), (("~1",), "/~01"), ((" é",), "/ é")],
)
def test_tokens_of_a_pointer_are_escaped(tokens, pointer):
    assert pointer_of(*tokens) == pointer


@law
@given(st.lists(st.text(max_size=6)))
def test_a_pointer_gives_its_tokens_back(tokens):
    parts = pointer_of(*tokens).split("/")[1:]
    assert [part.replace("~1", "/").replace("~0", "~") for part in parts] == tokens


def test_the_text_of_a_leaf_is_the_canonical_one():
    for value in (True, False, None, 1, -1, 2**70, 1.5, "", [], {}, {"b": [1], "a": "é"}, LosslessFloat(b"1.50")):
        assert canonical_text(value) == canonical(value).decode()
    for start in range(0, 0x11000, 64):
        text = "".join(chr(code) for code in range(start, start + 64) if not 0xD800 <= code < 0xE000)
        assert canonical_text(text) == canonical(text).decode()


@pytest.mark.parametrize("digits", [18, 19, 20, 30])
def test_long_numbers_are_exact_wherever_they_stand(digits):
    for offset in range(25):
        text = canonical({"a" * offset: int("9" * digits), "z": "y" * 30}).decode()
        assert canonical(read_canonical(text)).decode() == text


@pytest.mark.parametrize("long", [2**63 - 1, 10**30, 1.2345678901234568e-05])
def test_stored_text_is_read_into_what_json_reads(long):
    value = {"enum": [0.5, 1], "maximum": long, "multipleOf": 0.01, "small": 1e-300}
    read = read_canonical(canonical(value).decode())
    assert json.dumps(read) == json.dumps(value)


@pytest.mark.parametrize("inner", ['""', '"{"', '"}]"', '"{}"', '"\\"{\\""', '"a\\\\"', '"[", "]", "{"', '{"{": "}"}'])
def test_brackets_in_texts_nest_nothing(inner):
    depth = 3 if inner.startswith("{") else 2
    text = f'[[{inner}], [{inner}, ""]]'
    assert value_of(text, max_depth=depth) == json.loads(text)
    with pytest.raises(NotJson, match="max_json_depth"):
        value_of(text, max_depth=depth - 1)
