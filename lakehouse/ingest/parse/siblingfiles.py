"""Files next to a document that it refers to: read where the document is, never over the network, never outside of its SOURCE."""

from __future__ import annotations

import os
import posixpath
from contextlib import closing
from typing import Any

from lakehouse.asyncapi.following import NoSuchFile
from lakehouse.ingest.folders import leads_out
from lakehouse.ingest.parse.documentlimits import ParseLimits, read_up_to
from lakehouse.text.jsontext import NotJson
from lakehouse.text.redact import redact
from lakehouse.text.streams import NotReadable, TooLong, open_document
from lakehouse.text.yamltext import is_yaml, read_text

_TEXTS = (".proto", ".xsd", ".raml")


class FilesBeside:
    """Reads files by their paths relative to a document.

    Args:
        location: URI of the document's file.
        limits: how large a file may be, and the folders out of which none is read.
    """

    def __init__(self, location: str, limits: ParseLimits) -> None:
        self._folder = location.rpartition("/")[0]
        self._limits = limits
        around = [root.rstrip("/") for root in limits.roots if self._is_below(location, root.rstrip("/"))]
        self._root = min(around, key=len) if around else self._folder

    def __call__(self, path: str) -> Any:
        """Read a file: the value of JSON or YAML, the text of anything else.

        Raises:
            NoSuchFile: it is not there, too large, not readable, or outside.
        """
        scheme, colon, folder = self._folder.partition(":")
        uri = f"{scheme}{colon}{posixpath.normpath(posixpath.join(folder, path))}"
        if not self._is_below(uri, self._root) or leads_out(uri, self._root):
            raise NoSuchFile("the file is not in the SOURCE")
        if scheme == "file" and not os.path.isfile("/" + uri.removeprefix("file:").lstrip("/")):
            raise NoSuchFile("there is no such file")
        try:
            with closing(open_document(uri, None, self._limits.unpacked)) as stream:
                text = read_up_to(stream, self._limits.stream + 1)
        except (NotReadable, TooLong, OSError) as error:
            raise NoSuchFile("the file cannot be read") from error
        if len(text) > self._limits.stream:
            raise NoSuchFile(f"the file is larger than stream_bytes ({self._limits.stream})")
        try:
            value, _ = read_text(text, uri, self._limits.depth)
        except NotJson as error:
            if is_yaml(uri) or not uri.endswith(_TEXTS):
                raise NoSuchFile("the file is neither JSON nor YAML") from error
            return text.decode(errors="replace")
        redact(value)
        return value

    @staticmethod
    def _is_below(uri: str, folder: str) -> bool:
        return uri.startswith(folder + "/")
