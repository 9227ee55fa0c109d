"""The head of a message's page, and the page of an endpoint: who sends and receives, where, and what is in effect there."""

from __future__ import annotations

from typing import Any

import pytest
from sitecatalogs import Catalog, opened
from sitechecks import Page, faults_of

from lakehouse.render.protocolbinding import Endpoint
from lakehouse.site import Site
from lakehouse.site.pages.messageroute import address_of
from lakehouse.text.names import RegistryId, Xid


def endpoint(protocol: str, **more: Any) -> dict[str, Any]:
    return {"usage": ["producer"], "protocol": protocol, "messagegroups": ["/messagegroups/orders"]} | more


ENDPOINTS = {
    "writer": endpoint(
        "KAFKA",
        channel="trade",
        maintainer="ann",
        protocoloptions={
            "topic": "orders",
            "acks": 1,
            "endpoints": [{"uri": "ssl://one.example.com:9093"}, {"uri": "ssl://two.example.com:9093"}],
            "authorization": {"type": "OAuth2", "authorityuri": "https://login.example.com"},
        },
    ),
    "reader": endpoint("KAFKA", usage=["consumer"], protocoloptions={"topic": "orders"}),
    "elsewhere": endpoint("KAFKA", usage=["subscriber"], messagegroups=[], channel="trade", protocoloptions={"topic": "t"}),
    "queue": endpoint(
        "AMQP/1.0", messagegroups=["/messagegroups/mail", "/messagegroups/gone"],
        protocoloptions={"endpoints": [{"uri": "amqps://mq.example.com/outbox"}]},
    ),
    "stock": endpoint("AMQP/1.0", messagegroups=["/messagegroups/stock.amqp"]),
    "mute": endpoint("NATS", messagegroups=["/messagegroups/mute.nats"]),
}  # fmt: skip
GROUPS = {
    "base": {"messages": {"placed": {"description": "Without a way"}}},
    "orders": {
        "messages": {
            "placed": {"protocol": "KAFKA", "basemessage": "/messagegroups/base/messages/placed"},
            "paid": {"protocol": "KAFKA", "protocoloptions": {"topic": "payments"}},
        }
    },
    "mail": {"messages": {"sent": {"description": "Over what carries it"}}},
    "alone": {"messages": {"m": {"protocol": "MQTT/5.0", "protocoloptions": {"topic_name": "a/b"}}}},
    "stock": {"messages": {"all": {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"required": True}}}}},
    "stock.amqp": {
        "messages": {
            name: {
                "protocol": "AMQP/1.0",
                "basemessage": "/messagegroups/stock/messages/all",
                "envelope": "CloudEvents/1.0",
                "envelopemetadata": {"type": {"value": name}},
                "protocoloptions": {"properties": {"to": {"value": f"q/{name}"}}},
            }
            for name in ("low", "out")
        }
    },
    "mute": {"messages": {"base": {"description": "Nobody says where"}}},
    "mute.nats": {"messages": {"m": {"protocol": "NATS", "basemessage": "/messagegroups/mute/messages/base"}}},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("endpoints")
    catalog = Catalog(folder / "warehouse")
    document = {"specversion": "1.0-rc2", "messagegroups": GROUPS, "endpoints": ENDPOINTS}
    catalog.ingest({"file:/shop.json": ("default", document)})
    return Site(opened(catalog.folder, folder / "readmodel"), 128)


def text_of(site: Site, path: str) -> str:
    shown = site.page(f"reg-default/{path}.html", {}, "")
    assert shown.is_there
    page = Page(shown.page.body.decode())
    assert faults_of({path: page}) == []
    return page.text


def test_a_message_says_who_sends_and_receives_it_and_where(site):
    text = text_of(site, "messagegroups/orders/placed")
    assert "Producers send it to writer" in text
    assert "Consumers receive it from reader" in text
    assert "Where KAFKA topic orders" in text
    assert "elsewhere" not in text


def test_a_message_that_says_no_address_has_that_of_its_variants(site):
    text = text_of(site, "messagegroups/base/placed")
    assert "writer as orders / placed" in text
    assert "Where KAFKA topic orders" in text


def test_a_message_has_the_places_of_all_its_variants(site):
    text = text_of(site, "messagegroups/stock/all")
    assert "Producers send it to stock as stock.amqp / low, stock.amqp / out" in text
    assert "Where AMQP to q/low as stock.amqp / low AMQP to q/out as stock.amqp / out" in text


def test_no_page_promises_an_address_that_nothing_declares(site):
    for name in ("mute/base", "mute.nats/m"):
        text = text_of(site, f"messagegroups/{name}")
        assert "No address is declared. Payload" in text
        assert "mute" in text.partition("Producers send it to")[2].partition("Where")[0]
    assert "It names no address. Owner" in text_of(site, "endpoints/mute")
    assert "It names no address: messages say where they go." in text_of(site, "endpoints/stock")


def test_a_required_attribute_comes_from_where_it_is_required(site):
    assert "Required from stock / all: type" in text_of(site, "messagegroups/stock.amqp/low")


@pytest.mark.parametrize(
    ("message", "where"),
    [
        ({"protocol": "KAFKA", "protocoloptions": {"topic": "t"}}, "Where KAFKA topic t"),
        ({}, "Where it goes is not computed yet."),
    ],
)
def test_a_message_that_is_not_computed_yet_says_what_carries_it(tmp_path, message, where):
    groups, endpoints = {"g": {"messages": {"m": message}}}, {"e": endpoint("KAFKA", messagegroups=["/messagegroups/g"])}
    catalog = Catalog(tmp_path / "w")
    catalog._flatten = lambda *_: None  # as after a write, before the job ran
    catalog.ingest({"file:/d.json": ("default", {"messagegroups": groups, "endpoints": endpoints})})
    text = text_of(Site(opened(tmp_path / "w", tmp_path / "model"), 128), "messagegroups/g/m")
    assert where in text
    assert "Producers send it to e m" in text
    assert "No endpoint" not in text.partition("Where")[2]


def test_a_message_that_contradicts_its_endpoint_says_so_and_is_in_effect(site):
    text = text_of(site, "messagegroups/orders/paid")
    assert "KAFKA topic payments not the endpoint's reader, writer say orders" in text
    assert "KAFKA payments not orders" in text_of(site, "endpoints/writer")


def test_a_queue_is_the_node_of_the_endpoint(site):
    text = text_of(site, "messagegroups/mail/sent")
    assert "AMQP to outbox" in text
    assert "Producers send it to queue" in text
    assert "Consumers receive it from No endpoint is in the catalog." in text


@pytest.mark.parametrize(
    ("protocol", "options", "address"),
    [
        ("AMQP/1.0", {"node": "orders"}, "orders"),
        ("AMQP/1.0", {"node": "orders", "endpoints": [{"uri": "amqps://mq.example.com/outbox"}]}, "orders"),
        ("AMQP/1.0", {"endpoints": [{"uri": "amqps://mq.example.com/outbox"}]}, "outbox"),
        ("AMQP/1.0", {"endpoints": [{"uri": "amqps://mq.example.com"}]}, None),
        ("KAFKA", {"node": "orders", "endpoints": [{"uri": "ssl://one.example.com:9093/outbox"}]}, None),
    ],
)
def test_the_node_of_amqp_is_named_or_in_the_address(protocol, options, address):
    """END-052."""
    assert address_of(Endpoint(RegistryId("r"), Xid("/endpoints/e"), protocol=protocol, options=options)) == address


def test_a_message_that_nothing_carries_says_its_own_address(site):
    text = text_of(site, "messagegroups/alone/m")
    assert "MQTT topic name a/b" in text
    assert "No endpoint carries it." in text


def test_an_endpoint_says_how_to_connect_and_what_is_in_effect(site):
    text = text_of(site, "endpoints/writer")
    assert "Producers send messages to it." in text
    assert "addressssl://one.example.com:9093 Copy address addressssl://two.example.com:9093" in text
    assert "authorityuri https://login.example.com" in text
    assert "maintainer ann" in text
    assert "Messages 2" in text
    for shown in ("topic=orders", "topic=payments", "acks=1"):
        assert shown in text


def test_options_in_effect_do_not_say_that_what_is_in_use_is_deployed(site):
    for path in ("endpoints/writer", "messagegroups/orders/placed"):
        assert "deployed=" not in text_of(site, path)


def test_commands_that_are_left_out_are_counted(tmp_path):
    named = {"messagegroups": ["/messagegroups/g"]}
    readers = {f"a{n}": endpoint("KAFKA", usage=["consumer"], **named) for n in range(5)}
    writers = {f"b{n}": endpoint("KAFKA", **named) for n in range(7)}
    message = {"protocol": "KAFKA", "protocoloptions": {"topic": "t", "headers": [{"name": "h", "value": "v" * 7_000}]}}
    groups = {"g": {"messages": {"m": {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}}, "long": message}}}
    Catalog(tmp_path / "w").ingest({"file:/d.json": ("default", {"messagegroups": groups, "endpoints": readers | writers})})
    shown = Site(opened(tmp_path / "w", tmp_path / "model"), 128)
    text = text_of(shown, "messagegroups/g/m").partition("Send an example")[2]
    assert [f"to b{n}" in text for n in range(5)] == [True] * 4 + [False]
    assert "3 more endpoints that it is sent to: lakehouse render --endpoint writes the command." in text
    assert "No kcat here: it would have 7,0" in text_of(shown, "messagegroups/g/long")


def test_a_message_without_a_command_says_why(tmp_path):
    message = {"dataschemaformat": "JSONSchema/draft-07", "dataschema": {"minimum": 2, "maximum": 1, "type": "integer"}}
    groups = {"g": {"messages": {"m": message}}}
    Catalog(tmp_path / "w").ingest({"file:/d.json": ("default", {"messagegroups": groups})})
    shown = Site(opened(tmp_path / "w", tmp_path / "model"), 128)
    assert "Send an example No command: no example of it can be made." in text_of(shown, "messagegroups/g/m")


def test_an_endpoint_names_the_other_end(site):
    text = text_of(site, "endpoints/writer").partition("The other end")[2].partition("Map")[0]
    assert "elsewhere subscriber, channel trade" in text
    assert "reader consumer, carries orders, too" in text
    assert "names the group /messagegroups/gone, which is not in the catalog" in text_of(site, "endpoints/queue")


def test_the_map_says_of_an_endpoint_for_both_what_the_page_of_a_message_says(tmp_path):
    groups = {"g": {"messages": {"m": {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}}}}}
    endpoints = {"any": endpoint("KAFKA", usage=["producer", "consumer"], messagegroups=["/messagegroups/g"])}
    Catalog(tmp_path / "w").ingest({"file:/d.json": ("default", {"messagegroups": groups, "endpoints": endpoints})})
    shown = Site(opened(tmp_path / "w", tmp_path / "model"), 128)
    drawn, message = (shown.page(path, {}, "").page.body.decode() for path in ("map.html", "reg-default/messagegroups/g/m.html"))
    assert message.partition('class="route"')[2].partition("</section>")[0].count("any.html") == 2
    assert drawn.partition('id="list"')[2].count("any.html") == 2
    assert "producers send g to any; consumers receive g from any" in drawn
    assert drawn.count(' marker-start="') == drawn.count(' marker-end="') == 1
