"""What pages have to meet: links that lead somewhere, no script but the site's own, a size; read with Python's own parser."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

VOID = {"meta", "link", "img", "br", "wbr", "input", "hr", "rect", "path"}
INLINE = {"a", "abbr", "bdi", "code", "del", "ins", "span", "strong", "tspan", "wbr"}
LARGEST = 100_000


class Page(HTMLParser):
    """A page, read: its links, forms (where to, and the first values of their fields), ids, text, and what no page may hold."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.forms: list[tuple[str, dict[str, str]]] = []
        self.select = ""
        self.ids: list[str] = []
        self.scripts: list[str] = []
        self.faults: list[str] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        if self.open:
            self.faults.append(f"left open: {self.open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        reported = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag not in INLINE:
            self.words.append(" ")
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.faults.append(f"<{tag} {name}>")
            if name in ("href", "src", "action"):
                self.links.append(value or "")
            if name == "id" and value:
                self.ids.append(value)
        if tag == "form":
            self.forms.append((reported.get("action") or "", {}))
        if tag in ("input", "select") and self.forms and reported.get("name"):
            self.forms[-1][1][reported["name"] or ""] = reported.get("value") or ""
            self.select = reported["name"] if tag == "select" else ""
        if (
            tag == "option"
            and self.forms
            and self.select
            and (reported.get("value") or "")
            and not self.forms[-1][1][self.select]
        ):
            self.forms[-1][1][self.select] = reported["value"] or ""
        if tag == "script":
            self.scripts.append(reported.get("src") or "")
        if tag == "style":
            self.faults.append("<style>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in INLINE:
            self.words.append(" ")
        if tag in VOID:
            return
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"</{tag}> ends <{self.open[-1] if self.open else ''}>")
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"] and data.strip():
            self.faults.append("a script within the page")
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def pages_of(folder: Path) -> dict[str, Page]:
    """Read all pages below a folder, by path."""
    return {
        path.relative_to(folder).as_posix(): Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))
    }


def broken_links(folder: Path, pages: dict[str, Page]) -> list[str]:
    """List links that lead out of the folder, to no file, or to no place in a page."""
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    found = []
    for path, page in pages.items():
        for link in page.links:
            target, fragment = urldefrag(urljoin(f"http://site/{path}", link))
            parts = urlsplit(target)
            name = unquote(parts.path[1:])
            if parts.netloc != "site" or name not in files:
                found.append(f"{path}: {link}")
            elif fragment and name in pages and fragment not in pages[name].ids:
                found.append(f"{path}: {link} (no such place)")
    return found


def faults_of(pages: dict[str, Page]) -> list[str]:
    """List what no page may hold: other scripts than the site's own, handlers, styles, tags that are not closed, ids twice."""
    found = [f"{path}: {fault}" for path, page in pages.items() for fault in page.faults]
    found += [f"{path}: {one}" for path, page in pages.items() for one in page.scripts if not one.endswith("assets/site.js")]
    return found + [f"{path}: an id twice" for path, page in pages.items() if len(set(page.ids)) != len(page.ids)]


def too_large(folder: Path) -> list[str]:
    """List pages of more bytes than a page may have."""
    return [f"{path.name}: {path.stat().st_size}" for path in folder.rglob("*.html") if path.stat().st_size > LARGEST]
