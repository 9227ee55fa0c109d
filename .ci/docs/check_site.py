"""Checks the built site: it loads nothing from another host, and its search index has every page. `make docs-site` runs it."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from pathlib import Path

LOADING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Loads(HTMLParser):
    """Collects the addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the address of a tag that loads something."""
        address = dict(attrs).get(LOADING.get(tag, ""))
        if address:
            self.addresses.append(address)


def main(site: Path) -> int:
    """Return 1 when a page loads something from another host, or is missing from the search index."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    searched = {one["location"].partition("#")[0] for one in index["docs"]}
    faults = []
    for page in sorted(site.glob("*.html")):
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        faults += [f"{page.name} loads {one}" for one in loads.addresses if "://" in one or one.startswith("//")]
        if page.name not in searched | {"404.html"}:
            faults.append(f"{page.name} is not in the search index")
    print("\n".join(faults) or f"{site}: {len(searched)} pages, nothing loaded from another host", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
