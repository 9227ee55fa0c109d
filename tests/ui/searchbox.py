"""Words typed into the search box of a page."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def type_word(page: Page, word: str) -> None:
    """Type where a page puts the focus, once it has: letters that are typed before it is drawn first reach no box."""
    box = page.locator("#find")
    expect(box).to_be_focused()
    page.keyboard.type(word, delay=20)
    expect(box).to_have_value(word)
