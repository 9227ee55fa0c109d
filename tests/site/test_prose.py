"""Descriptions in Markdown: what becomes an element, which links lead where, and what stays text."""

from __future__ import annotations

import re
from itertools import product

import pytest
from sitecatalogs import Catalog, opened
from sitechecks import Page, faults_of

from lakehouse.site import Site, templating
from lakehouse.site.templating import folded, outside, prose, prose_line

XID = "/messagegroups/g/messages/m"
URL = "https://a.example.com/x_y_z?b&amp;c"
REL = 'rel="external nofollow noopener noreferrer"'


def find(target: str) -> str | None:
    return "./m.html" if target == XID else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\n\n*two* `three`", "<p>one</p>\n<p><em>two</em> <code>three</code></p>\n"),
        ("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n"),
        (f"see {XID}.", f'<p>see <a href="./m.html">{XID}</a>.</p>\n'),
        (f"[that]({XID})", '<p><a href="./m.html">that</a></p>\n'),
        (f"[{XID}]({XID})", f'<p><a href="./m.html">{XID}</a></p>\n'),
        ("see /messagegroups/g/messages/other", "<p>see /messagegroups/g/messages/other</p>\n"),
        ("[docs](https://docs.example.com/a?b&c)", f'<p><a href="https://docs.example.com/a?b&amp;c" {REL}>docs</a></p>\n'),
        ("at https://a.example.com/x_y_z?b&c.", f'<p>at <a href="https://a.example.com/x_y_z?b&amp;c" {REL}>{URL}</a>.</p>\n'),
        (f"https://a.example.com{XID}", f'<p><a href="https://a.example.com{XID}" {REL}>https://a.example.com{XID}</a></p>\n'),
        ("[a](other.html) [b](//h.example.com/)", "<p>a b</p>\n"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>\n"),
        ("[x](data:text/html,a)", "<p>[x](data:text/html,a)</p>\n"),
        ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n"),
        ("a <b onclick=x>b</b>", "<p>a &lt;b onclick=x&gt;b&lt;/b&gt;</p>\n"),
        ("# no heading", "<p># no heading</p>\n"),
    ],
)
def test_markdown_becomes_html(text, expected):
    assert prose(text, find) == expected


def test_a_line_without_marks_is_what_the_reader_of_markdown_makes_of_it(monkeypatch):
    characters = "a.,() 1Z:;-'"
    texts = ["".join(some) for length in range(1, 5) for some in product(characters, repeat=length)]
    quick = [prose(text, find) for text in texts]
    plain = [templating._PLAIN.match(text) is not None for text in texts]
    monkeypatch.setattr(templating, "_PLAIN", re.compile(r"(?!)"))  # matches nothing
    assert quick == [prose(text, find) for text in texts]
    assert 500 < sum(plain) < len(texts)


def test_the_description_of_a_field_is_a_line_of_markdown(tmp_path):
    assert prose_line(f"`b`\n- *c* {XID} <i>", find) == f'<code>b</code>\n- <em>c</em> <a href="./m.html">{XID}</a> &lt;i&gt;'
    assert prose_line("it's a-b: c", find) == "it&#39;s a-b: c"
    field = {"type": "string", "description": f"**One** of {XID}, see https://docs.example.com/x"}
    message = {"dataschemaformat": "JSONSchema/draft-07", "dataschema": {"type": "object", "properties": {"a": field}}}
    catalog = Catalog(tmp_path / "warehouse")
    catalog.ingest({"file:/a.json": ("default", {"messagegroups": {"g": {"messages": {"m": message}}}})})
    site = Site(opened(catalog.folder, tmp_path / "readmodel"), 128)
    body = site.page("reg-default/messagegroups/g/m.html", {}, "")
    table = body.page.body.decode().partition('class="fields')[2].partition("</table>")[0]
    assert "<strong>One</strong> of <a href=" in table
    assert f'<a href="https://docs.example.com/x" {REL}>' in table


def test_an_id_may_break_behind_what_separates_its_parts():
    assert folded("a.b/c_d-e:f<&") == "a.<wbr>b/<wbr>c_<wbr>d-<wbr>e:<wbr>f&lt;&amp;"


def test_a_picture_is_not_loaded():
    assert "<img" not in prose("![x](https://pictures.example.com/x.png)", find)


def test_only_addresses_of_the_web_are_links():
    assert (
        outside("https://a.example.com/?b&c")
        == f'<a href="https://a.example.com/?b&amp;c" {REL}>https://a.example.com/?b&amp;c</a>'
    )
    assert outside("javascript:alert(1)") == "javascript:alert(1)"
    assert outside('https://a.example.com/ "x') == "https://a.example.com/ &#34;x"


def test_descriptions_and_what_replaces_a_message_lead_on(tmp_path):
    old = {
        "description": f"**Old**: use {XID}",
        "deprecated": {"alternative": XID, "documentation": "https://docs.example.com/old"},
        "documentation": "https://docs.example.com/m",
    }
    catalog = Catalog(tmp_path / "warehouse")
    catalog.ingest({"file:/a.json": ("default", {"messagegroups": {"g": {"messages": {"m": {}, "old": old}}}})})
    site = Site(opened(catalog.folder, tmp_path / "readmodel"), 128)
    path = "reg-default/messagegroups/g/old"
    body = site.page(f"{path}.html", {}, "").page.body.decode()
    page = Page(body)
    assert faults_of({path: page}) == []
    assert "<strong>Old</strong>" in body
    assert page.links.count("../../../reg-default/messagegroups/g/m.html") >= 2
    for url in ("https://docs.example.com/old", "https://docs.example.com/m"):
        assert f'<a href="{url}" {REL}>' in body
    markdown = site.page(f"{path}.md", {}, "").page.body.decode()
    assert "](https:" not in markdown
    assert "docs.example.com/old" in markdown.replace("\\", "")
