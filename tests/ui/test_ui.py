"""The pages in a browser: found, read, compared, on a desktop, on a phone, in the dark, and with axe-core's eyes."""

from __future__ import annotations

import csv
import io
import json
import os
import re

import pytest
from playwright.sync_api import expect
from screens import MODES, SHOTS
from searchbox import type_word

KAFKA = "reg-default/messagegroups/shop.orders.kafka/shop.orders.OrderPlaced.html"
AMQP = "reg-default/messagegroups/warehouse.stock.amqp/warehouse.StockChanged.html"
PAGES = {
    "home": "index.html",
    "message": KAFKA,
    "group": "reg-default/messagegroups/web.events.html",
    "deprecated": "reg-default/messagegroups/shop.orders/shop.orders.OrderPaid.html",
    "endpoint": "reg-default/endpoints/shop.orders.kafka.producer.html",
    "schema": "reg-default/schemagroups/shop.orders.schemas/shop.orders.OrderPlacedData.html",
    "version": "reg-default/schemagroups/shop.orders.schemas/shop.orders.OrderPlacedData/1.html",
    "registry": "reg-default.html",
    "map": "map.html",
    "findings": "findings.html",
    "rule": "findings/MSG-037.html",
    "snapshots": "snapshots.html",
    "snapshot": "snapshots/3.html",
    "compare": "compare/1~to~3.html",
    "documents": "documents.html",
    "search": "search.html?q=order",
    "missing": "404.html",
    "side-by-side": KAFKA.replace(".html", "~withmessagegroups~to~shop.orders~to~shop.orders.OrderPlaced.html"),
}
OTHERS = {
    "strange": "strange/reg-default/messagegroups/strange.html",
    "script": "strange/reg-default/messagegroups/strange/~3Cscript~3Ealert~281~29~3Cscript~3E.html",
    "rtl": "strange/reg-default/messagegroups/strange/~D8~B7~D9~84~D8~A8.html",
    "large-map": "large/map.html",
    "large-group": "large/reg-default/messagegroups/g0.html",
}
SHORT = bool(os.environ.get("SHORT"))


def test_searched_for_and_found(site, look):
    looked = look()
    page = looked.page
    page.goto(site)
    type_word(page, "orderplaced ka")
    first = page.locator(".suggest .hits li").first
    expect(first).to_contain_text("shop.orders.OrderPlaced")
    page.locator("#find").press("ArrowDown")
    page.locator("#find").press("Enter")
    page.wait_for_url(re.compile("OrderPlaced"))
    expect(page.locator("h1")).to_have_text("shop.orders.OrderPlaced")
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()


def test_a_search_that_fails_says_why(server, look):
    looked = look()
    looked.page.route("**/search*", lambda route: route.fulfill(status=503, body="busy"))
    looked.page.goto(f"{server}/ui/")
    type_word(looked.page, "orderplaced")
    expect(looked.page.locator(".suggest")).to_have_text("Search does not answer: 503 Service Unavailable")
    assert looked.faults
    assert all("503" in fault for fault in looked.faults)
    looked.faults.clear()


def test_the_search_page_filters(site, look):
    page = look().page
    page.goto(site + "search.html?q=shop")
    hits = page.locator("#results .hits > li")
    expect(hits.first).to_be_visible()
    everything = hits.count()
    page.get_by_label("Protocol").select_option("KAFKA")
    page.get_by_label("Kind").select_option("message")
    expect(hits).to_have_count(4)
    assert everything > 4
    assert set(page.locator("#results .p-kafka").all_inner_texts()) == {"KAFKA"}
    page.locator("#find").fill("nothing has this word")
    expect(page.locator("#results")).to_contain_text("Nothing has all these words")


def test_files_and_server_find_the_same(files, server, look):
    page = look().page
    found = []
    for site in (f"{files}/demo/", f"{server}/ui/"):
        found.append({})
        for q in (
            "order",
            "partitionkey",
            "customer bought",
            "isbn",
            "harbour.orders",
            "placed ka",
            "OrderPl",
            "team",
            "zzz",
            "...",
        ):
            for more in ("", "&protocol=KAFKA", "&kind=message&group=shop.orders"):
                page.goto(f"{site}search.html?q={q}{more}")
                expect(page.locator("#results p").last).to_be_visible()
                links = page.locator("#results .hits a").evaluate_all("all => all.map((one) => one.href)")
                found[-1][q + more] = sorted(link.removeprefix(site) for link in links)
    assert found[0] == found[1]
    assert sum(map(len, found[0].values())) > 50


def test_files_and_server_offer_the_same_word_for_one_that_is_misspelled(files, server, look):
    page = look().page
    offers = []
    for site in (f"{files}/demo/", f"{server}/ui/"):
        offers.append([])
        for q in ("quantitty", "field:giftmesage", "regoin order", "ordrplacd", "Kafkaa", "xyzzyqq"):
            page.goto(f"{site}search.html?q={q}")
            expect(page.locator("#results")).to_contain_text("Nothing has all these words")
            offers[-1].append(page.locator("#results a bdi").all_inner_texts())
    assert offers[0] == offers[1]
    assert offers[0][:2] == [["quantity"], ["field:giftmessage"]]
    assert offers[0][-1] == []


@pytest.mark.parametrize("query", ["q=order", "order=name&kind=schema", "q=owner:checkout", ""])
def test_files_list_their_hits_as_the_server_does(files, server, look, query):
    page = look().page
    page.goto(f"{files}/demo/search.html?{query}")
    lists = []
    for ending in ("csv", "json"):
        with page.expect_download() as download:
            page.locator("#results").get_by_role("link", name=ending.upper(), exact=True).click()
        assert download.value.suggested_filename == f"search.{ending}"
        texts = download.value.path().read_text("utf-8"), page.request.get(f"{server}/ui/search.{ending}?{query}").text()
        # A server counts days back from now, files from their snapshot.
        lists.append([re.sub(r"(; )?changed in the last 7 days", "", text) for text in texts])
    ours, theirs = ([tuple(row.values()) for row in csv.DictReader(io.StringIO(text))] for text in lists[0])
    assert sorted(ours) == sorted(theirs)
    assert len(ours) > 3
    ours, theirs = (json.loads(text) for text in lists[1])
    assert ours["total"] == theirs["total"]
    assert sorted(ours["hits"], key=lambda one: one["path"]) == sorted(theirs["hits"], key=lambda one: one["path"])


def test_the_search_box_is_a_combobox(site, look):
    looked = look()
    page = looked.page
    page.goto(site + KAFKA)
    box = page.get_by_role("combobox", name="Search the catalog")
    options = page.get_by_role("listbox", name="Suggestions").get_by_role("option")
    expect(box).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("/")
    type_word(page, "stockchanged")
    expect(options.first).to_be_visible()
    expect(box).to_have_attribute("aria-expanded", "true")
    assert page.locator(f"#{box.get_attribute('aria-controls')}").get_attribute("role") == "listbox"
    expect(box).not_to_have_attribute("aria-activedescendant", re.compile("."))
    for key, at in (("ArrowDown", 0), ("ArrowDown", 1), ("ArrowUp", 0)):
        box.press(key)
        expect(options.nth(at)).to_have_attribute("aria-selected", "true")
        assert box.get_attribute("aria-activedescendant") == options.nth(at).get_attribute("id")
    assert page.evaluate("document.activeElement.id") == "find"
    assert looked.grave() == []
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / "suggestions.png")
    box.press("ArrowUp")
    expect(page.locator("[role=option][aria-selected=true]")).to_have_count(0)
    box.press("Escape")
    expect(options.first).to_be_hidden()
    expect(box).to_have_attribute("aria-expanded", "false")
    expect(box).to_have_value("stockchanged")
    box.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    box.press("Enter")
    page.wait_for_url(re.compile("warehouse.StockChanged"))
    expect(page.locator("h1")).to_have_text("warehouse.StockChanged")


def test_hits_are_walked_with_arrows(site, look):
    page = look().page
    page.goto(site + "search.html?q=order")
    expect(page.locator("#results .hits > li").first).to_be_visible()
    page.locator("#find").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#results .hits a").nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#find")).to_be_focused()


def test_the_map_is_one_stop_whose_boxes_arrows_reach_and_shows_the_neighbours_of_each(site, look):
    page = look().page
    page.goto(site + "map.html")
    boxes = page.locator(".drawing [data-box]").count()
    page.locator("h1").evaluate("one => { one.tabIndex = -1; one.focus(); }")
    at_box = "document.activeElement.closest('[data-box]')?.dataset.box ?? ''"
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate(at_box):
            break
    seen: set[str] = set()
    lines = page.locator(".drawing [data-ends]").evaluate_all("all => all.map((one) => one.dataset.ends.split(' '))")
    for key in ["ArrowUp"] * boxes + (["ArrowDown"] * boxes + ["ArrowRight"] + ["ArrowUp"] * boxes) * 3:
        page.keyboard.press(key)
        at = page.evaluate(at_box)
        if at in seen:
            continue
        seen.add(at)
        near = {at} | {end for ends in lines if at in ends for end in ends}
        assert page.locator(".drawing [data-box].aside").count() == boxes - len(near)
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert len(seen) == boxes
    there = page.evaluate(at_box)
    page.keyboard.press("ArrowLeft")
    assert sorted([there, page.evaluate(at_box)]) in [sorted(ends) for ends in lines]  # along a line
    page.keyboard.press("Tab")
    assert page.evaluate(at_box) == ""
    assert page.locator(".drawing .aside").count() == 0  # what left the map gives all of it back


def test_messages_with_a_field_are_a_word_away_and_narrowed_down(site, look):
    page = look().page
    page.goto(site + "search.html")
    page.locator("#find").fill("field:isbn")
    hits = page.locator("#results .hits > li")
    expect(hits.first).to_contain_text("payload field")
    page.locator("#find").fill("order")
    page.locator(".facets").get_by_role("link", name="message", exact=True).click()
    page.wait_for_url(re.compile("kind=message"))
    expect(page.locator("#results .tag.kind").first).to_be_visible()
    assert set(page.locator("#results .tag.kind").all_inner_texts()) == {"message"}
    expect(page.locator(".facets [aria-current]")).to_have_text("message")


def test_who_owns_a_message_is_on_its_page(site, look):
    page = look().page
    page.goto(site + "reg-default/endpoints/shop.orders.kafka.producer.html")
    page.locator(".answers").get_by_role("link", name="checkout").click()
    page.wait_for_url(re.compile("owner=checkout"))
    expect(page.locator("#results .hits > li", has_text="shop.orders.kafka.producer")).to_be_visible()


def test_three_clicks_to_what_a_variant_needs_and_what_changed_last(site, look):
    page = look().page
    page.goto(site)
    page.get_by_role("link", name="warehouse.stock.amqp", exact=True).click()
    page.get_by_role("link", name="warehouse.StockChanged", exact=True).click()
    page.wait_for_url(re.compile(r"stock\.amqp/warehouse\.StockChanged"))
    answers = page.locator(".answers")
    expect(answers).to_contain_text("Required")
    expect(answers).to_contain_text("from warehouse.stock / warehouse.StockChanged")
    expect(answers).to_contain_text("Last change")
    expect(answers).to_contain_text("snapshot 1")


def test_two_states_are_compared(site, look):
    page = look().page
    page.goto(site + KAFKA)
    if page.locator("form.choose").count():
        states = page.locator("form.choose").first
        states.get_by_label("Compare").select_option("1")
        states.get_by_label("with").select_option("3")
        states.get_by_role("button", name="Compare").click()
    else:
        page.get_by_role("link", name="Snapshot 1 → Snapshot 3").click()
    row = page.locator("tr", has_text="/envelopemetadata/region/required")
    expect(row).to_contain_text("breaking")
    expect(row.locator("ins")).to_have_text("true")


def test_whom_the_last_change_breaks_is_two_clicks_away(site, look):
    page = look().page
    page.goto(site)
    page.get_by_role("link", name="Changes", exact=True).click()
    page.get_by_role("link", name="last change").click()
    row = page.locator("#broken tbody tr").first
    expect(row).to_contain_text("shop.orders.kafka.producer")
    expect(row).to_contain_text("checkout")


def test_effective_or_as_declared(site, look):
    page = look().page
    page.goto(site + KAFKA)
    inherited = page.locator("#attributes tr", has_text="subject").first
    expect(inherited).to_be_visible()
    page.get_by_text("As declared").click()
    expect(inherited).to_be_hidden()
    expect(page.locator("#attributes tr", has_text="partitionkey")).to_be_visible()


def test_the_dark_is_dark(site, look):
    colours = {}
    for mode in ("desktop", "dark"):
        page = look(mode).page
        page.goto(site)
        colours[mode] = [int(one) for one in re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))]
    assert sum(colours["dark"][:3]) < 150
    assert sum(colours["desktop"][:3]) > 600


def test_an_xid_is_copied(site, look):
    looked = look(permissions=["clipboard-read", "clipboard-write"])
    looked.page.goto(site + KAFKA)
    looked.page.get_by_role("button", name="Copy XID").click()
    copied = looked.page.evaluate("navigator.clipboard.readText()")
    assert copied == "/messagegroups/shop.orders.kafka/messages/shop.orders.OrderPlaced"


def test_an_xid_is_copied_where_scripts_have_no_clipboard(site, look):
    page = look().page
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as on http of another machine
    page.goto(site + KAFKA)
    page.get_by_role("button", name="Copy XID").click()
    expect(page.get_by_role("button", name="Copied XID")).to_be_visible()
    page.locator("#find").click()
    page.keyboard.press("Control+V")
    assert page.locator("#find").input_value() == "/messagegroups/shop.orders.kafka/messages/shop.orders.OrderPlaced"


def test_a_command_that_sends_an_example_is_two_clicks_away(site, look):
    looked = look(permissions=["clipboard-read", "clipboard-write"])
    page = looked.page
    page.goto(site)
    type_word(page, "shop.orders.kafka OrderPlaced")
    expect(page.locator(".suggest .hits > li")).to_have_count(1)
    page.locator(".suggest .hits a").click()
    page.get_by_role("button", name="Copy kcat").click()
    expect(page.get_by_role("button", name="Copied kcat")).to_be_visible()
    assert " | kcat -P -b kafka-1.example.com:9093 " in page.evaluate("navigator.clipboard.readText()")


def test_what_is_typed_before_the_script_is_loaded_is_searched(site, look):
    page = look().page
    waiting = []
    page.route("**/site.js", lambda route: waiting.append(route))  # noqa: PLW0108 - Playwright marks the function
    page.goto(site, wait_until="commit")
    page.locator("input[name=q]").press_sequentially("OrderPlaced")
    waiting[0].continue_()
    expect(page.locator(".suggest .hits > li").first).to_be_visible()


def test_a_variant_and_its_base_are_two_clicks_away(site, look):
    page = look().page
    page.goto(site + KAFKA)
    page.get_by_role("link", name="Compare with its base, side by side").click()
    expect(page.locator("tr", has_text="/protocoloptions/topic/value")).to_contain_text("harbour.orders")
    expect(page.locator("#fields tr", has_text="lines.isbn")).to_contain_text("the same")


def test_the_form_of_compare_leads_to_a_styled_page_whose_links_lead_on(server, look):
    page = look().page
    page.goto(server + "/ui/compare.html")
    page.locator("select[name=a]").select_option("1")
    page.locator("select[name=b]").select_option("3")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url(re.compile("/ui/compare/1~to~3.html$"))
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / "compare-form.png", full_page=True)
    assert page.evaluate("document.styleSheets[0].cssRules.length") > 10
    page.locator("#differences h3 a").first.click()
    expect(page.locator("#attributes")).to_be_visible()


def test_pages_read_without_script(site, look):
    page = look(java_script_enabled=False).page
    page.goto(site)
    page.get_by_role("link", name="shop.orders.kafka", exact=True).click()
    page.get_by_role("link", name="shop.orders.OrderPlaced", exact=True).click()
    expect(page.locator("#attributes")).to_contain_text("partitionkey")
    if "/ui/" in site:
        page.locator("#find").fill("OrderPlaced")
        page.locator("#find").press("Enter")
        expect(page.locator("#results .hits > li").first).to_contain_text("shop.orders.OrderPlaced")


def test_a_browser_is_led_to_the_pages(server, look):
    page = look().page
    page.goto(server + "/")
    assert page.url == server + "/ui/"
    expect(page.locator("h1")).to_be_visible()


def test_the_past_is_served(server, look):
    page = look().page
    page.goto(f"{server}/at/spring/ui/reg-default/messagegroups/shop.orders/shop.orders.OrderPlaced.html")
    expect(page.locator(".past")).to_contain_text("as of snapshot 1")
    expect(page.locator(".lead")).to_have_text("A customer has bought something")


@pytest.mark.parametrize("mode", ["desktop", "phone"] if SHORT else MODES)
@pytest.mark.parametrize("name", [*PAGES, *OTHERS])
def test_axe_finds_nothing_grave_and_nothing_is_wider_than_the_screen(name, mode, files, look):
    looked = look(mode)
    path = OTHERS[name] if name in OTHERS else f"demo/{PAGES[name]}"
    looked.page.goto(f"{files}/{path}")
    looked.page.wait_for_timeout(100)
    SHOTS.mkdir(exist_ok=True)
    looked.page.screenshot(path=SHOTS / f"{name}-{mode}.png", full_page=True)
    assert looked.page.evaluate("document.documentElement.scrollWidth") <= MODES[mode]["viewport"]["width"]
    assert looked.grave() == []
