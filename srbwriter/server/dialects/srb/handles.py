"""Handles: requests that run on their own, and the verbs that steer their branches while they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.responses import Response

from srbwriter.engine.generation import Branch
from srbwriter.engine.limits import check_range
from srbwriter.engine.text import whole_tokens
from srbwriter.engine.types import Priority, Prompt, Request, Sampling, Stop
from srbwriter.engine.verbs import HTTP_VERBS, Argument, Kind, Verb
from srbwriter.server.body import Fields, read_n, read_options, read_sampling, read_stop
from srbwriter.server.context import Context, json_response
from srbwriter.server.dialects.srb.completions import (
    EventLines,
    branch_runs,
    read_branches,
    read_request,
    split_branches,
)
from srbwriter.server.errors import ApiError, bad, from_engine, missing
from srbwriter.server.prompts import read_ids
from srbwriter.server.registry import Record, new_id
from srbwriter.server.reply import finite
from srbwriter.server.services import Services
from srbwriter.server.streams import Follower, cancel
from srbwriter.server.work import PER_ENTRY


def branch_object(branch: Branch, ids: bool = False) -> dict[str, Any]:
    """What a branch is now; with ``ids`` also its tokens and their logprobs."""
    value: dict[str, Any] = {
        "index": branch.index,
        "state": str(branch.state),
        "reason": None if branch.finish_reason is None or branch.live else str(branch.finish_reason),
        "stop_text": branch.stop_text,
        "error": None if branch.error is None else branch.error.words,
        "text": branch.text,
        "tokens": len(branch.buffer.ids),
        "seed": branch.seed,
        "bans": branch.bans,
        "tokens_per_second": round(branch.tokens_per_second, 2),
    }
    if ids:
        value["ids"] = list(branch.ids)
        value["logprobs"] = [finite(entry.logprob) for entry in branch.logprobs]
    return value


def request_object(record: Record, place: int, *, texts: bool = False) -> dict[str, Any]:
    """What a request is now, with ``place`` others that wait before it; ``texts`` adds its branches."""
    error = next((g.error for g in record.generations if g.error is not None), None)
    value: dict[str, Any] = {
        "id": record.id,
        "created": int(record.created),
        "state": "running" if record.live else "failed" if error is not None else "done",
        "error": None if error is None else from_engine(error).message,
        "queue": place,
        "count": len(record.branches),
        "picked": record.picked,
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "completion_tokens": record.written,
        "events": record.size,
    }
    if texts:
        value["branches"] = [
            {**branch_object(branch), "index": index} for index, branch in enumerate(record.branches)
        ]
    return value


RUNNING = 202


async def requests(context: Context) -> Response:
    """List this client's requests; an admin's key sees those of all."""
    records = context.services.registry.of(context.client)
    places = {record.id: context.services.registry.place(record) for record in records}
    branches = sum(len(record.branches) for record in records)

    def make() -> dict[str, Any]:
        listing = [request_object(record, places[record.id]) for record in records]
        return {"object": "list", "data": listing}

    return await context.answer(branches * PER_ENTRY, make)


async def create(context: Context) -> Response:
    """Start a request that outlives its connection; clients read and steer it by its id."""
    await context.fields()
    return await _start(context, await context.read(partial(read_request, parent=context.parent())))


async def read(context: Context) -> Response:
    record = _record(context)
    place = context.services.registry.place(record)
    return await context.answer(record.effort, lambda: request_object(record, place, texts=True))


async def forget(context: Context) -> Response:
    record = _record(context)
    cancel(record)
    context.services.registry.remove(record)
    return json_response({"id": record.id, "deleted": True})


async def cancel_all(context: Context) -> Response:
    record = _record(context)
    cancel(record)
    return json_response({"id": record.id, "verb": "cancel"}, RUNNING)


async def promote(context: Context) -> Response:
    """Raise a background or prefetch request to the foreground; its text stays."""
    record = _record(context)
    for generation in record.generations:
        if generation.request.priority > Priority.NORMAL:
            generation.promote(Priority.NORMAL)
    return json_response({"id": record.id, "verb": "promote"}, RUNNING)


async def events(context: Context) -> Response:
    """Everything that happens to a request, from its beginning or ``after`` the given event on."""
    return await _follow(context, None)


async def branch_events(context: Context) -> Response:
    record, branch = _branch(context)
    return await _follow(context, record.index(branch))


async def _follow(context: Context, only: int | None) -> Response:
    record = _record(context)
    given = context.query.get("after") or context.request.headers.get("last-event-id") or "0"
    if not given.isdecimal() or len(given) > 12:
        raise bad("after", "after: expected the number of an event")
    if int(given) and len(record.generations) > 1:
        raise bad("after", "after: a request of several prompts is followed from its beginning")
    lines = EventLines(sse=True, rich=True, only=only, first=int(given))
    lines.begin(record)
    return await context.stream(record, lines, after=int(given), own=False)


async def add_branches(context: Context) -> Response:
    record = _record(context)
    if len(record.generations) > 1:
        raise bad("n", "branches can only be added to a request of one prompt")
    fields = await context.fields()
    generation = record.generation
    live = sum(branch.live for branch in generation.branches)
    n = read_n(split_branches(fields)[0], 1, context.services.max_n - live)
    like = generation.branches[0]
    base = replace(like.sampling, seed=None)
    _, samplings, stops = await context.read(
        lambda fields, services: read_branches(fields, services.engine, n, base, like.stop_rule)
    )
    generation.add_branch(n, samplings, stops)  # all of them or none
    return json_response({"id": record.id, "verb": "add", "n": n}, RUNNING)


async def read_branch(context: Context) -> Response:
    record, branch = _branch(context)
    index = record.index(branch)
    return await context.answer(
        len(branch.buffer.ids) * PER_ENTRY, lambda: {**branch_object(branch, ids=True), "index": index}
    )


async def patch_branch(context: Context) -> Response:
    """Change a branch's samplers and stop rules; fields that the body leaves out stay."""
    record, branch = _branch(context)
    sampling, stop = await context.read(
        lambda fields, services: (
            read_sampling(fields, branch.sampling, services.engine),
            read_stop(fields, branch.stop_rule),
        )
    )
    branch.change(sampling, stop)
    return _done(record, branch, "patch")


async def steer(context: Context) -> Response:
    """One verb on one branch. It acts within a step and disturbs no other branch."""
    record, branch = _branch(context)
    name = context.path["verb"]
    fields = await context.fields()
    if name == "fork":
        return await _fork(context, record, branch, fields)
    if name == "pick":
        return await _pick(context, record, branch, fields)
    verb = next((verb for verb in HTTP_VERBS if verb.name == name), None)
    if verb is None:
        known = ", ".join((*(verb.name for verb in HTTP_VERBS), "fork", "pick"))
        raise ApiError(404, f"there is no verb {name}; there are {known}")
    given = await context.read(partial(_arguments, verb, branch))
    problem = verb.problem(branch, given)

    def act(*_: object) -> None:
        getattr(branch, name)(**given)  # it may be in another state by now

    await context.read(act)
    note = f"{name} does nothing: branch {record.index(branch)} {problem}" if problem else ""
    return _done(record, branch, name, note)


def _arguments(verb: Verb, branch: Branch, fields: Fields, services: Services) -> dict[str, Any]:
    """What a body says for the arguments of a verb. Raises ApiError (400)."""
    return {
        argument.name: read(argument, branch, fields, services)
        for argument in verb.arguments
        if (read := _READERS.get(argument.kinds)) is not None
    }


def _read_text(argument: Argument, branch: Branch, fields: Fields, services: Services) -> str:
    text = fields.text(argument.name)
    if not text:
        raise missing(argument.name)
    return text


def _read_more(argument: Argument, branch: Branch, fields: Fields, services: Services) -> Stop | int | None:
    """A stop rule; so many tokens more where the body says nothing else."""
    if set(fields.values) <= {argument.field}:
        tokens = fields.size(argument.field, -1, 1)
        return tokens if tokens > 0 else None
    return read_stop(fields, branch.stop_rule)


def _read_count(argument: Argument, branch: Branch, fields: Fields, services: Services) -> int | None:
    if not fields.has(argument.name):
        return None
    count = fields.integer(argument.name, 1)
    check_range(argument.name, count, 1, 2**31 - 1)
    return count


def _read_sampling(argument: Argument, branch: Branch, fields: Fields, services: Services) -> Sampling:
    return read_sampling(fields, replace(branch.sampling, seed=None), services.engine)


_READERS: Mapping[tuple[Kind, ...], Callable[[Argument, Branch, Fields, Services], Any]] = {
    ("count",): _read_count,
    ("flag",): lambda argument, branch, fields, services: fields.flag(argument.name),
    ("sampling",): _read_sampling,
    ("seed",): lambda argument, branch, fields, services: fields.seed(),
    ("stop",): lambda argument, branch, fields, services: read_stop(fields, branch.stop_rule),
    ("stop", "count"): _read_more,
    ("text",): _read_text,
}
"""How arguments stand in a body; there are no others that HTTP takes."""


async def _fork(context: Context, record: Record, branch: Branch, fields: Fields) -> Response:
    """Start a new request that continues from this branch, which itself stays as it is.

    With ``at`` it continues from before that token: with ``token`` in its place, or with none of ``without``.
    """
    n = read_n(split_branches(fields)[0], 1, context.services.max_n)
    base = replace(branch.sampling, seed=None)
    _, sampling, stop = await context.read(
        lambda fields, services: read_branches(fields, services.engine, n, base, branch.stop_rule)
    )
    prompt, begin, without = await context.read(partial(_turn, branch), record.effort)
    request = Request(
        prompt=prompt,
        n=n,
        sampling=sampling,
        stop=stop,
        add_bos=False,
        begin=begin,
        without=without,
        **read_options(fields, context.settings.context_shift, context.engine),
    )
    before = branch.generation.request
    if not request.cache_salt:
        request = replace(request, cache_salt=before.cache_salt)
    return await _start(context, request)


def _turn(
    branch: Branch, fields: Fields, services: Services
) -> tuple[Prompt, tuple[int, ...], tuple[int, ...]]:
    """The prompt of a fork, what its branches begin with and what may not follow. Raises ApiError (400)."""
    engine = services.engine
    if not any(fields.has(name) for name in ("at", "token", "without")):
        return branch_runs(branch, engine), (), ()
    written = len(branch.buffer.ids)
    at = fields.integer("at", written)
    check_range("at", at, 0, written)
    token, banned = fields.raw("token"), fields.raw("without")
    chosen = () if token is None else tuple(read_ids("token", [token], engine))
    without = () if banned is None else tuple(read_ids("without", banned, engine))
    ids = tuple(branch.buffer.ids[:at])
    whole = whole_tokens(engine.pieces(ids))
    prompt = (*branch.generation.prompt_ids, *ids[:whole])
    return prompt, (*ids[whole:], *chosen), without


async def _pick(context: Context, record: Record, branch: Branch, fields: Fields) -> Response:
    """Keep what this branch has written and let the others go; a new request may name it as parent.

    ``chars`` keeps only the beginning of its text. Answers when the branch has ended: until then it may write
    another token.
    """
    chars = max(fields.integer("chars", 0), 0) if fields.has("chars") else None
    for other in record.branches:
        if other is branch:
            other.stop()
        elif other.live:
            other.kill()
    with Follower(context.services.notifier, record.generations) as follower:
        async for news in follower.batches(context.settings.timeout):
            if not branch.live or not news:
                break
    record.picked = record.index(branch)
    parent: dict[str, Any] = {"request": record.id, "branch": record.picked}
    value: dict[str, Any] = {**branch_object(branch), "index": record.picked, "verb": "pick"}
    value["parent"] = parent
    if chars is not None:
        parent["chars"] = min(chars, len(value["text"]))
        value["text"] = value["text"][: parent["chars"]]
    return json_response(value)


async def _start(context: Context, request: Request) -> Response:
    rules = request.stop if isinstance(request.stop, tuple) else (request.stop,)
    if request.overflow == "shift" and any(r.max_tokens is None and r.max_seconds is None for r in rules):
        raise bad(
            "max_tokens",
            "Field 'max_tokens': needed here, or max_seconds: nobody's connection would ever end this text",
        )
    record = await context.submit([request], new_id())
    headers = {"Location": f"/srb/v1/requests/{record.id}", **context.queue(record)}
    return json_response(request_object(record, int(headers["X-Queue"])), RUNNING, headers)


def _record(context: Context) -> Record:
    return context.record(context.path["id"])


def branch_of(context: Context, record: Record) -> Branch:
    """The branch that the path names. Raises ApiError (404)."""
    text = context.path["branch"]
    if not text.isdecimal() or len(text) > 6:
        raise ApiError(404, f"request {record.id} has no branch {text}")
    return record.branch(int(text))


def _branch(context: Context) -> tuple[Record, Branch]:
    record = _record(context)
    return record, branch_of(context, record)


def _done(record: Record, branch: Branch, verb: str, note: str = "") -> Response:
    said = {"id": record.id, "index": record.index(branch), "verb": verb}
    return json_response({**said, "note": note} if note else said, RUNNING)
