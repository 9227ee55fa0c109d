"""Errors in the words of Python: methods and arguments, where the command has commands and options."""

from __future__ import annotations

import inspect
import re
import shlex

_COMMAND = re.compile(r"`lakehouse (?:--warehouse \S+ )?([a-z]+)((?: [^`]*)?)`")
_OPTION = re.compile(r"--([a-z][a-z-]*)(?: [A-Z]+\b)?")
_PLACEHOLDER = re.compile(r"\A[A-Z]+\Z|\A\d+\Z")


def for_python(text: str, methods: type) -> str:
    """Return a text with calls and arguments where it names commands and options.

    Args:
        text: such as "move it with `lakehouse label --move`".
        methods: the class whose methods are called like the commands; a command without a method stays as it is.
    """
    flags = {
        name
        for _, method in inspect.getmembers(methods, inspect.isfunction)
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.default is False
    }

    def call(rows: re.Match[str]) -> str:
        return _call(rows[1], rows[2], flags) if hasattr(methods, rows[1]) else rows[0].replace("--", "\0")

    text = _COMMAND.sub(call, text)
    return _OPTION.sub(lambda result: _argument(result[1], flags), text).replace("\0", "--")


def _argument(option: str, flags: set[str]) -> str:
    name = option.replace("-", "_")
    return f"{name}=True" if name in flags else f"{name}="


def _call(command: str, rest: str, flags: set[str]) -> str:
    """Write a command line as a call: `show /x --at 3` is `catalog.at(3).show('/x')`."""
    words, arguments, past = shlex.split(rest.replace("'", "\\'")), [], ""
    while words:
        word = words.pop(0)
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--"):
            arguments.append(_value(word))
        elif name in flags:
            arguments.append(f"{name}=True")
        else:
            value = _value(words.pop(0)) if words else "..."
            past, arguments = (f".at({value})", arguments) if name == "at" else (past, [*arguments, f"{name}={value}"])
    return f"`catalog{past}.{command}({', '.join(arguments)})`"


def _value(word: str) -> str:
    return word if _PLACEHOLDER.match(word) else repr(word)
