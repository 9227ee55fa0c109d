"""The pages that people look at, below `/ui/` and `/at/SNAPSHOT/ui/`: what `lakehouse.site` makes, handed to a browser."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote

from lakehouse.errors import SnapshotNotFound
from lakehouse.serve.answer.asking import Answer, Asked
from lakehouse.serve.answer.live import Head
from lakehouse.serve.problems import ProblemFound
from lakehouse.site import Site
from lakehouse.site.addresses import HOME
from lakehouse.site.served import HEADERS

UI = "ui"
ENDING = ".html"
_MOST_PARAMETERS = 20
_EMPTY = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Catalog</title></head><body><main><h1>The catalog is empty</h1>
<p>Load documents with <code>lakehouse ingest path/to/documents</code>, then load this page again.</p></main></body></html>
"""


def ui_answer(site: Site, asked: Asked, head: Head) -> Answer:
    """Answer with a page.

    Raises:
        ProblemFound: there is no such snapshot.
    """
    path = asked.raw_path.partition("?")[0]
    below = path[len(asked.target.prefix) + len(UI) + 1 :]
    if not below.startswith("/"):  # /ui: links of the page begin at /ui/
        return _led_to(asked, "/")
    if not head.number:
        return Answer(200, dict(HEADERS), _EMPTY, "text/html; charset=utf-8")
    query = dict(parse_qsl(asked.query.decode("ascii", "replace"), max_num_fields=_MOST_PARAMETERS, errors="replace"))
    try:
        named = unquote(below[1:])
        shown = site.page(named, query, asked.origin, asked.target.at)
        whole = below.rstrip("/") + ENDING  # as the page is named, for who left it out
        lacks_ending = not shown.is_there and not below.endswith(ENDING)
        if lacks_ending and site.page(unquote(whole[1:]), query, asked.origin, asked.target.at).is_there:
            return _led_to(asked, whole)
    except SnapshotNotFound as error:
        raise ProblemFound("not_found", f"/at/{asked.target.at}", str(error)) from error
    page = shown.page
    if shown.is_there and page.path != (named or HOME):  # what a form chose has an address of its own, from which its links lead
        return _led_to(asked, f"/{page.path}", 303, query="")
    return Answer(200 if shown.is_there else 404, dict(HEADERS), page.body, page.media_type, shown.snapshot_id)


def _led_to(asked: Asked, below: str, status: int = 307, query: str | None = None) -> Answer:
    """Lead to another address below `/ui`; query: its parameters, None: those of the request."""
    kept = asked.query.decode("ascii", "replace") if query is None else query
    url = f"{asked.origin}{asked.target.prefix}/{UI}{below}" + (f"?{kept}" if kept else "")
    return Answer(status, {"Location": url, "Cache-Control": "no-cache"}, media_type="")
