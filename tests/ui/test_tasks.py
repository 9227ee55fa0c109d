"""The ten questions that people come with: each is answered with at most three clicks and one word typed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from screens import SHOTS
from searchbox import type_word


class Visitor:
    """Somebody who starts at the first page, and counts clicks and words."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.clicks = self.words = 0
        page.goto(url)

    def type(self, word: str) -> None:
        self.words += 1
        type_word(self.page, word)

    def click(self, what: str | Locator) -> None:
        self.clicks += 1
        (self.page.get_by_role("link", name=what, exact=True) if isinstance(what, str) else what).first.click()

    def choose(self, word: str, group: str) -> None:
        """Search for a message by its id, and click the suggestion of a group."""
        self.type(word)
        suggestions = self.page.locator(".suggest")
        expect(suggestions).to_contain_text(f"/messagegroups/{group}/")
        self.click(suggestions.locator(".hits > li").filter(has_text=f"/messagegroups/{group}/").locator("a"))
        self.page.wait_for_url(re.compile(f"/{re.escape(group)}/"))


@pytest.fixture
def visitor(server, look, request):
    one = Visitor(look(permissions=["clipboard-read", "clipboard-write"]).page, f"{server}/ui/")
    yield one
    assert one.clicks <= 3
    assert one.words <= 1
    SHOTS.mkdir(exist_ok=True)
    one.page.screenshot(path=SHOTS / f"{request.node.name.removeprefix('test_')}.png", full_page=True)


def test_task_01_events_with_a_field(visitor):
    visitor.type("field:isbn")
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url(re.compile("q=field"))
    expect(visitor.page.locator("#results .hits > li").first).to_contain_text("payload field lines.isbn")
    assert set(visitor.page.locator("#results .tag.kind").all_inner_texts()) == {"message"}


def test_task_02_the_topic_of_a_message_over_kafka(visitor):
    visitor.choose("OrderPlaced", "shop.orders.kafka")
    expect(visitor.page.locator(".answers")).to_contain_text(re.compile(r"Where\s*KAFKA topic harbour\.orders"))
    expect(visitor.page.locator(".route")).to_contain_text("shop.orders.kafka.consumer")


def test_task_03_the_schema_of_a_payload_and_an_example(visitor):
    visitor.choose("OrderPlaced", "shop.orders.kafka")
    visitor.click(visitor.page.locator(".jumps").get_by_role("link", name="Schema"))
    expect(visitor.page.locator("#schema tr", has_text="giftmessage")).to_be_in_viewport()
    expect(visitor.page.locator("#examples pre").first).to_contain_text("giftmessage")


def test_task_04_what_changed_last_week_and_whom_it_breaks(visitor):
    visitor.click("Changes")
    visitor.click("last change")  # the last 7 days of the demo are over
    expect(visitor.page.locator("#broken tbody tr")).to_contain_text("checkout")
    rows = visitor.page.locator("#differences tbody tr:visible")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("reaches 1 message")
    everything = visitor.page.locator(".entity").count()
    visitor.page.locator("label[for=only-all]").click()  # a tile that shows more of the same answer
    assert visitor.page.locator(".entity:visible").count() == everything > 1


def test_task_05_where_an_inherited_attribute_comes_from(visitor):
    visitor.choose("OrderPlaced", "shop.orders.kafka")
    row = visitor.page.locator('[id="at/envelopemetadata/subject"]')
    expect(row).to_contain_text("inherited from shop.orders / shop.orders.OrderPlaced")
    visitor.click(row.get_by_role("link"))
    expect(visitor.page.locator('[id="at/envelopemetadata/subject"] .origin')).to_have_text("declared")


def test_task_06_a_command_that_sends_an_example(visitor):
    visitor.choose("OrderPlaced", "shop.orders.kafka")
    visitor.click(visitor.page.get_by_role("button", name="Copy kcat"))
    expect(visitor.page.get_by_role("button", name="Copied kcat")).to_be_visible()
    assert " | kcat -P -b kafka-1.example.com:9093 " in visitor.page.evaluate("navigator.clipboard.readText()")


def test_task_07_two_messages_compared(visitor):
    visitor.choose("OrderPlaced", "shop.orders.kafka")
    visitor.click("Compare with its base, side by side")
    expect(visitor.page.locator("tr", has_text="/protocoloptions/topic/value")).to_contain_text("harbour.orders")


def test_task_08_who_owns_a_message(visitor):
    visitor.choose("OrderPlaced", "shop.orders.kafka")
    expect(visitor.page.locator(".answers")).to_contain_text(re.compile(r"Owner\s*checkout"))


def test_task_09_documents_with_errors_and_why(visitor):
    visitor.click("Findings")
    visitor.click(visitor.page.locator("tr", has_text="error").get_by_role("link"))
    finding = visitor.page.locator(".finding").first
    expect(finding).to_contain_text("not loaded")
    visitor.click(finding.get_by_role("link", name=re.compile(r"\.json$")))
    expect(visitor.page.locator("h1")).to_contain_text(".json")
    expect(visitor.page.locator(".finding").first).to_be_visible()


def test_task_10_a_link_to_a_past_state(visitor):
    visitor.choose("OrderPlaced", "shop.orders.kafka")
    visitor.click(visitor.page.locator("#history li", has_text="Snapshot 1").get_by_role("link", name="as it was then"))
    visitor.page.wait_for_url(re.compile("/at/1/ui/.*OrderPlaced"))
    expect(visitor.page.locator(".past")).to_contain_text("snapshot 1, 2026-01-12 00:37 UTC spring")
    expect(visitor.page.get_by_role("link", name="To now")).to_be_visible()
