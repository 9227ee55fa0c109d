"""The text of a document becomes a JSON value: JSON, or YAML that says nothing which JSON could not.

YAML is read by its JSON subset of types (the core schema of YAML 1.2 without its dates and its numbers in other bases):
mappings with texts as keys, sequences, texts, numbers, true, false, null. Refused are duplicate keys, aliases (with which a
small text could grow without end), tags, and more than one document.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import jiter
import yaml
from yaml.reader import ReaderError

from lakehouse.text.blanking import blank_text
from lakehouse.text.jsontext import NotJson, not_utf8, read_json, too_deep
from lakehouse.text.names import ROOT
from lakehouse.text.problems import BYTE_ORDER_MARK, Problem
from lakehouse.text.values import MOST_DIGITS

YAML_SUFFIXES = (".yaml", ".yml")
_BOM = b"\xef\xbb\xbf"
_LINE = "\n"
_MEND = "Fix the text at that place and load it again: nothing of it was loaded. Values must be those that JSON has."
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
# What the core schema of YAML 1.2, or a type of YAML 1.1, reads as a number or flag; PyYAML quotes what it reads so itself.
_NUMBER_OF_ANY_VERSION = re.compile(
    r"""[-+]?(?:
        0[bB][01_]+ | 0[oO][0-7_]+ | 0[xX][0-9a-fA-F_]+
      | (?:[0-9][0-9_]*(?:\.[0-9_]*)? | \.[0-9][0-9_]*)(?:[eE][-+]?[0-9_]+)?
      | [0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?  # in base 60
    )\Z""",
    re.VERBOSE,
)
_FLAG_OF_ANY_VERSION = re.compile(r"[yYnN]\Z")
# What a message of PyYAML quotes, but for names of tokens such as '<block end>' and single characters.
_QUOTED = re.compile(r"'(?!<[a-z ]+>')(?:[^'\\]|\\.){2,}'|\"(?:[^\"\\]|\\.){2,}\"")
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_text(text: bytes, uri: str, max_depth: int) -> tuple[Any, list[Problem]]:
    """Read a document: YAML when its name ends so, else JSON.

    Returns:
        The value and what was found, as `jsontext.read_json` does.

    Raises:
        NotJson: it is neither, or cannot be trusted.
    """
    if is_yaml(uri):
        return read_yaml(text, max_depth)
    return read_json(text, max_depth)


def is_yaml(uri: str) -> bool:
    """Return whether the name of a document, packed or not, is one of YAML."""
    return uri.removesuffix(".gz").endswith(YAML_SUFFIXES)


def read_yaml(text: bytes, max_depth: int) -> tuple[Any, list[Problem]]:
    """Read a YAML document into the values that JSON has.

    Raises:
        NotJson: it is not YAML, or says what JSON cannot; the message says what and where, and quotes no value.
    """
    problems = []
    if text.startswith(_BOM):
        message = "the document starts with a byte order mark"
        problems.append(Problem(ROOT, BYTE_ORDER_MARK, "warning", message, "Save it as UTF-8 without one."))
    loader = None
    try:
        loader = _Loader(text.decode("utf-8-sig"), max_depth)
        return loader.get_single_data(), problems
    except UnicodeDecodeError as error:
        raise not_utf8(text, error) from error
    except yaml.MarkedYAMLError as error:
        raise NotJson(f"not YAML: {_error_message(error)}", _MEND) from error
    except ReaderError as error:
        before = text.decode("utf-8-sig")[: error.position]
        place = f" (line {before.count(_LINE) + 1}, column {len(before) - before.rfind(_LINE)})"
        raise NotJson(f"not YAML: the character #x{error.character:04x}, which YAML does not allow{place}", _MEND) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # such as a character outside Unicode
        raise NotJson(f"not YAML: {blank_text(' '.join(str(error).split()))}", _MEND) from error
    except RecursionError as error:
        raise too_deep(max_depth) from error
    finally:
        if loader is not None:
            loader.dispose()


def as_yaml(*documents: Any) -> bytes:
    """Write JSON values as YAML, each a document of one stream; texts of several lines as blocks.

    A text that YAML 1.1 or 1.2 reads as something else is quoted.
    """
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000, encoding="utf-8")


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _written(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _written)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER_OF_ANY_VERSION, list("-+.0123456789"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", _FLAG_OF_ANY_VERSION, list("yYnN"))


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with no more types than JSON has."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # the class's own table, in place of YAML 1.1's

    def __init__(self, text: str, max_depth: int) -> None:
        super().__init__(text)
        self.max_depth = max_depth
        self.level = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise _refused("an alias, which JSON does not have", self.peek_event().start_mark)
        self.level += 1
        if self.level > self.max_depth + 1:
            raise too_deep(self.max_depth)
        node = super().compose_node(parent, index)
        self.level -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        results: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _refused("a key that is not text", key_node.start_mark)
            if key in results:
                raise _refused(f"the key {key!r} occurs twice", key_node.start_mark)
            results[key] = self.construct_object(value_node, deep=True)
        return results


def _refused(what: str, mark: yaml.Mark) -> NotJson:
    return NotJson(f"not YAML: {what}{_place(mark)}", _MEND)


def _error_message(error: yaml.MarkedYAMLError) -> str:
    """Return reason and position of a parser's error, without the text that PyYAML quotes: it may be part of a secret."""
    parts = ((error.problem, error.problem_mark), (error.context, error.context_mark))
    return blank_text(", ".join(f"{_QUOTED.sub('…', what)}{_place(mark)}" for what, mark in parts if what))


def _place(mark: yaml.Mark | None) -> str:
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""


def _text(loader: _Loader, node: yaml.ScalarNode) -> str:
    text: str = loader.construct_scalar(node)
    if _SURROGATE.search(text) is None:
        return text
    try:  # a pair of them, each written as an escape, is one character, as in JSON
        return text.encode("utf-16", errors="surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise _refused("half a surrogate pair, which is not text", node.start_mark) from error


def _number(loader: _Loader, node: yaml.ScalarNode) -> Any:
    text = loader.construct_scalar(node)
    if not _INTEGER.fullmatch(text):
        return jiter.LosslessFloat(text.encode())
    if len(text.lstrip("-")) > MOST_DIGITS:
        raise _refused(f"a number of {len(text)} digits", node.start_mark)
    return int(text)


def _object(loader: _Loader, node: yaml.MappingNode) -> Any:
    return loader.construct_mapping(node, deep=True)


def _refuse(loader: _Loader, node: yaml.Node) -> Any:
    raise _refused("a tag, which JSON does not have", node.start_mark)  # it may be a secret


_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"\A(?:null|~|)\Z"), ["n", "~", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"\A(?:true|false)\Z"), ["t", "f"])
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(rf"\A(?:{_NUMBER.pattern})\Z"), list("-0123456789"))
_Loader.yaml_constructors = {
    "tag:yaml.org,2002:null": yaml.SafeLoader.construct_yaml_null,
    "tag:yaml.org,2002:bool": yaml.SafeLoader.construct_yaml_bool,
    "tag:yaml.org,2002:float": _number,
    "tag:yaml.org,2002:str": _text,
    "tag:yaml.org,2002:seq": lambda loader, node: loader.construct_sequence(node, deep=True),
    "tag:yaml.org,2002:map": _object,
    None: _refuse,
}
