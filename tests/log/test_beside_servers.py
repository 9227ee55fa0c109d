"""An ingest while two servers write into the same warehouse all the time."""

from __future__ import annotations

import copy
import json
import threading
from contextlib import ExitStack

import pytest
from serve.writing import EVENT, writing

from lakehouse.log.commits import read_head
from lakehouse.operations.digestcheck import Link, check_chain

DOCUMENT = {
    "specversion": "1.0-rc2",
    "messagegroups": {"documents": {"messages": {f"d{number}": EVENT for number in range(5)}}},
}


@pytest.mark.slow
def test_an_ingest_beside_two_servers_loses_and_doubles_nothing(catalog, tmp_path):
    catalog.write("a.json", DOCUMENT)
    catalog.ingest()
    stop, answers, failed = threading.Event(), {}, []
    with ExitStack() as stack:
        served = [stack.enter_context(writing(catalog.settings.warehouse, tmp_path / name)) for name in ("one", "two")]
        for one in served:
            one.done("PUT", "/messagegroups/served", {})

        def write(server, name):
            number = 0
            while not stop.is_set():
                answer = server.send("POST", f"/messagegroups/served/messages/{name}", EVENT | {"description": str(number)})
                if answer.status == 503:  # it lost too many races, and says that nothing was written
                    continue
                number += 1
                if answer.status == 201:
                    answers[name] = number
                    if answer.json["versionid"] != str(number):
                        failed.append((name, number, answer.json["versionid"]))
                else:
                    failed.append((name, answer.status, answer.body[:300]))

        threads = [threading.Thread(target=write, args=(one, f"{n}{i}")) for n, one in enumerate(served) for i in range(2)]
        for thread in threads:
            thread.start()
        try:
            summaries = []
            for number in range(3):
                after = copy.deepcopy(DOCUMENT)
                after["messagegroups"]["documents"]["messages"]["d0"] = EVENT | {"description": f"round {number}"}
                catalog.write("a.json", after)
                summaries.append(catalog.ingest())
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert failed == []
        assert len(answers) == 4
        there = served[0].get("/messagegroups/served/messages?inline=versions")
        assert {name: sorted(map(int, one["versions"])) for name, one in there.items()} == {
            name: list(range(1, count + 1)) for name, count in answers.items()
        }
        documents = served[1].get("/messagegroups/documents/messages")
        assert documents["d0"]["description"] == "round 2"
        assert len(documents) == 5
    numbers = [one.snapshot_id for one in summaries]
    assert numbers == sorted(set(numbers))
    head = read_head(catalog.spark)
    assert check_chain(catalog.spark.table("changes"), Link(), deep=True) == (Link(head.snapshot_id, head.digest), [])
    rows = catalog.spark.table("changes").filter("kind = 'snapshot'")
    assert rows.count() == head.snapshot_id
    reported = [json.loads(row["body"]) for row in rows.select("body").collect()]
    assert len({one["ingest_id"] for one in reported}) == head.snapshot_id
    print(f"{head.snapshot_id} snapshots, {sum(answers.values())} requests, ingests {numbers}")
