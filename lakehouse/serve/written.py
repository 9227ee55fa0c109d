"""Requests that wrote are answered with what they wrote, as a GET shows it, out of the snapshot that has it."""

from __future__ import annotations

from typing import Any

from lakehouse.serve.answer.asking import Answer, Asked, Request, header_value
from lakehouse.serve.answer.entities import keyed, unmarked
from lakehouse.serve.answer.live import Head
from lakehouse.serve.answer.nested import Answers
from lakehouse.serve.answer.pages import Pages, entity_answers
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.requests import DETAILS, Target, quoted
from lakehouse.serve.write.apply import Outcome
from lakehouse.serve.writer.wire import Done
from lakehouse.text.names import Xid
from lakehouse.text.xid import last_id, xid_of


def written_answer(pages: Pages, asked: Asked, done: Done, head: Head) -> Answer:
    """Answer a request that wrote.

    Args:
        pages: what answers.
        asked: the request.
        done: what it did, in a snapshot that the read model has.
        head: the newest snapshot.

    Raises:
        ProblemFound: what was written cannot be shown.
    """
    outcome, number = done.outcome, done.snapshot_id
    if outcome.shows == "nothing":
        return Answer(204, body=b"", media_type="", snapshot=number)
    if number in (0, head.number):
        key = head.digest if number else ""
    else:
        key = pages.live.model.answer(lambda view: str(view.commit_of(number)["digest"]))
    if outcome.shows == "entity":
        return _entity(pages, asked, outcome, head, number, key)

    def collections(request: Request) -> Answer:
        if outcome.shows == "collection":
            return _json(request, _members(request, entity_answers(request), asked.target.parts, outcome.xids))
        parts = []
        for collection in sorted({xid.rsplit("/", 2)[1] for xid in outcome.xids}):
            xids = [xid for xid in outcome.xids if xid.rsplit("/", 2)[1] == collection]
            text = _members(request, entity_answers(request), (*asked.target.parts, collection), xids)
            parts.append(keyed(collection) + text)
        return _json(request, b"{" + b",".join(parts) + b"}")

    return pages.answer_at(asked, head, number, key, collections)


def _entity(pages: Pages, asked: Asked, outcome: Outcome, head: Head, number: int, key: str) -> Answer:
    parts = tuple(outcome.xids[0][1:].split("/")) if outcome.xids[0] != "/" else ()
    shown = Asked(asked.target._replace(parts=parts), asked.query, asked.raw_path, asked.origin)
    answer = pages.answer_at(shown, head, number, key, pages.answered)
    if answer.status == 200 and outcome.created:
        answer.status = 201
    if outcome.created:
        answer.headers["Location"] = _url(shown.target, asked.base)
    if outcome.version is not None:
        version = Target(None, None, tuple(outcome.version[1:].split("/")), "", asked.target.details)
        answer.headers["Content-Location"] = _url(version, asked.base)
    return answer


def _url(target: Target, base: str) -> str:
    details = DETAILS if target.details and "schemas" in target.parts else ""
    return header_value(base + quoted(target.path) + details)


def _members(request: Request, answers: Answers, parts: tuple[str, ...], xids: list[Xid]) -> bytes:
    """Write the members of a collection that were processed."""
    wanted = {last_id(xid) for xid in xids}
    if len(parts) == 1:
        return answers.groups(parts[0], lambda found: [one for one in found if one.entity.id in wanted])
    holder = xid_of(*parts[:-1])
    if len(parts) == 3:
        group = request.catalog.group(holder)
        if group is None:
            raise ProblemFound("not_found", holder)

        def of_entries(entries: list[Any]) -> list[Any]:
            return [entry for entry in entries if entry.id in wanted]

        return answers.resources(group, of_entries)
    resource = request.catalog.resource(holder)
    if resource is None:
        raise ProblemFound("not_found", holder)
    return answers.versions(resource, lambda found: [one for one in found if one.entity["versionid"] in wanted])


def _json(request: Request, text: bytes) -> Answer:
    return Answer(body=unmarked(text, request.asked.base, request.asked.target.path))
