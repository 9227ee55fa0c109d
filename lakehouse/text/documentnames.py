"""The spellings by which a person names a document: its URI, another spelling of that, a path, or the end of one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from urllib.parse import unquote

SUFFIXES = (".json", ".cereg", ".yaml", ".yml")
_LOCAL = re.compile(r"\Afile:(?://localhost(?=/))?/*")
_S3 = re.compile(r"\As3n?://")
_SCHEME = re.compile(r"\A[A-Za-z][A-Za-z0-9+.\-]*:")


def is_document(path: str) -> bool:
    """Return whether a file in a folder is read, by its name."""
    return path.removesuffix(".gz").endswith(SUFFIXES)


def documents_of(text: str, uris: Iterable[str]) -> list[str]:
    """List the documents that a text names: those at its URI or path; where there are none, those whose URI ends so after a `/`.

    Args:
        text: a URI, a path (a relative one begins at the working directory), or the end of one.
        uris: of the documents to choose from.

    Returns:
        URIs as stored, sorted, each once.
    """
    existing, wanted = set(uris), _spellings(text)
    end = "/" + os.path.normpath(text)
    results = [uri for uri in existing if _plain(uri) in wanted] or [uri for uri in existing if uri.endswith(("/" + text, end))]
    return sorted(results)


def _spellings(text: str) -> set[str]:
    if text.startswith("file:"):
        return {_plain(text), _plain(unquote(text))}
    if _SCHEME.match(text):
        return {_plain(text)}
    return {os.path.abspath(text), os.path.realpath(text)}


def _plain(uri: str) -> str:
    """Return a `file:` URI as a path, and others as Spark spells them."""
    return os.path.normpath(_LOCAL.sub("/", uri)) if uri.startswith("file:") else _S3.sub("s3a://", uri)
