"""Suites of expectations as files: Great Expectations' own JSON, one a table, that an analyst edits or adds to.

The shipped ones are in `expectations/`; the setting `expectations_dir` names a folder of the user's own. What they mean is
reported in `docs/validation.md`; they are run by `expectations`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lakehouse.errors import SettingsError
from lakehouse.settings import Settings, data_folder

if TYPE_CHECKING:
    from importlib.abc import Traversable

SPECIFICATION = "specification"  # the suite that is made from the rules, and is in no file


class Expectation(NamedTuple):
    """One expectation.

    Attributes:
        name: for reports; a suite of the user's with the same name replaces it.
        severity: 'error', 'warning' or 'info'.
        description: what it asks, in words; empty: Great Expectations' own words are shown.
        gates: a failure stops an ingest before the commit; only of severity error.
        config: `type` and `kwargs`, as Great Expectations takes them.
        meta: other facts, such as the requirement.
    """

    name: str
    severity: str
    description: str
    gates: bool
    config: dict[str, Any]
    meta: dict[str, Any]


class Suite(NamedTuple):
    """The expectations of one table, view or query.

    Attributes:
        query: gives the rows that are meant; None: those of the table.
        optional: the table need not be there; then the suite does not run.
    """

    name: str
    table: str
    query: str | None
    expectations: tuple[Expectation, ...]
    optional: bool = False

    @property
    def words(self) -> set[str]:
        """Return all words in the suite: it reads no table whose name is not among them."""
        configs = [expectation.config for expectation in self.expectations]
        return {word.lower() for word in re.findall(r"\w+", json.dumps([self.table, self.query, configs]))}

    @property
    def gate(self) -> Suite:
        """Return the suite with only those expectations that stop an ingest."""
        return self._replace(expectations=tuple(expectation for expectation in self.expectations if expectation.gates))


class _ExpectationMeta(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str = ""
    severity: Literal["error", "warning", "info"] = "error"
    description: str = ""
    when: Literal["always", "validate"] = "always"


class _ExpectationText(BaseModel):
    model_config = ConfigDict(extra="ignore")  # Great Expectations writes more keys: id, severity, notes

    type: str
    kwargs: dict[str, Any] = {}
    description: str | None = None
    meta: _ExpectationMeta = _ExpectationMeta()


class _SuiteMeta(BaseModel):
    model_config = ConfigDict(extra="allow")

    table: str = Field(default="", pattern=r"\A\w*\z")
    query: str | None = None
    replaces: bool = False
    optional: bool = False


class _SuiteText(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str = Field(pattern=r"\A[\w.\-]+\z")  # it names a page
    expectations: list[_ExpectationText]
    meta: _SuiteMeta = _SuiteMeta()


def read_suites(settings: Settings) -> dict[str, Suite]:
    """Read the shipped suites, and over them those of the user's folder.

    A suite of the user's is added to the shipped one of that name: an expectation replaces the one of its name, others
    are added. With `"replaces": true` in its `meta` it replaces the whole suite.

    Raises:
        SettingsError: a file is not a suite, or the folder is not there.
    """
    suites = {name: suite for name, (suite, _) in _read_folder(data_folder("expectations")).items()}
    if settings.expectations_dir:
        folder = Path(settings.expectations_dir)
        if not folder.is_dir():
            raise SettingsError(f"expectations_dir: {folder} is not a folder. Name one with suites, or leave it empty.")
        for name, (suite, replaces) in _read_folder(folder).items():
            suites[name] = suite if replaces or name not in suites else _added(suites[name], suite)
    return suites


def read_stopping(settings: Settings) -> list[Suite]:
    """Read the suites that may stop an ingest, with those expectations only that do.

    Raises:
        SettingsError: a suite cannot be read.
    """
    return [suite.gate for suite in read_suites(settings).values() if suite.gate.expectations]


def choose_suites(suites: dict[str, Suite], names: Iterable[str]) -> dict[str, Suite]:
    """Return the suites that are named; all of them if none is.

    Raises:
        SettingsError: there is no suite of that name.
    """
    wanted = list(names)
    unknown = [name for name in wanted if name not in suites and name != SPECIFICATION]
    if unknown:
        raise SettingsError(f"no suite is called {unknown[0]}. There are: {', '.join([SPECIFICATION, *sorted(suites)])}.")
    return {name: suite for name, suite in suites.items() if not wanted or name in wanted}


def _read_folder(folder: Traversable | Path) -> dict[str, tuple[Suite, bool]]:
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    return {file.name.removesuffix(".json"): _read_suite(file) for file in files}


def _read_suite(file: Traversable | Path) -> tuple[Suite, bool]:
    """Read one file: the suite, and whether it replaces the shipped one."""
    try:
        text = _SuiteText.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: cannot be read ({error}).") from error
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        raise SettingsError(f"{file}: {key}: {problem['msg']}. docs/validation.md shows a suite.") from error
    if text.name != file.name.removesuffix(".json"):
        raise SettingsError(f"{file}: the suite's name is {text.name!r}. A suite is called like its file.")
    if text.name == SPECIFICATION:
        raise SettingsError(f"{file}: the suite {SPECIFICATION} is made from the rules. Give yours another name.")
    expectations = [_expectation(expectation) for expectation in text.expectations]
    names = [expectation.name for expectation in expectations]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError(f"{file}: two expectations are called {twice[0]!r}. Give each its own `name` in its `meta`.")
    suite = Suite(text.name, text.meta.table or text.name, text.meta.query, tuple(expectations), text.meta.optional)
    return suite, text.meta.replaces


def _expectation(text: _ExpectationText) -> Expectation:
    meta = text.meta
    about = text.kwargs.get("column") or "+".join(text.kwargs.get("column_list", []))
    name = meta.name or (f"{text.type}({about})" if about else text.type)
    gates = meta.severity == "error" and meta.when == "always"
    config = {"type": text.type, "kwargs": text.kwargs}
    return Expectation(name, meta.severity, meta.description or text.description or "", gates, config, meta.model_extra or {})


def _added(shipped: Suite, own: Suite) -> Suite:
    names = {expectation.name for expectation in own.expectations}
    shipped_only = tuple(expectation for expectation in shipped.expectations if expectation.name not in names)
    return own._replace(query=own.query or shipped.query, expectations=shipped_only + own.expectations)
