"""Handles: requests that run on their own, and the verbs that steer their branches while they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from srbwriter.engine.generation import Branch
from srbwriter.engine.types import Request
from srbwriter.server.answers import seconds
from srbwriter.server.body import Body
from srbwriter.server.call import Call, cancel, json_response
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.follow import Follower
from srbwriter.server.lora import for_each_branch
from srbwriter.server.params import (
    read_branches,
    read_n,
    read_options,
    read_sampling,
    read_stop,
    split_branches,
)
from srbwriter.server.registry import Record, new_id
from srbwriter.server.stream import frames
from srbwriter.server.work import PER_ENTRY

from .completions import branch_runs, read_request
from .events import EventLines
from .shape import branch_object, request_object

_RUNNING = 202


async def requests(call: Call) -> Response:
    """The requests of whoever asks; an admin's key sees those of all."""
    records = call.services.registry.of(call.client)
    places = {record.id: call.services.registry.place(record) for record in records}
    branches = sum(len(record.branches) for record in records)

    def make() -> dict[str, Any]:
        listing = [request_object(record, places[record.id]) for record in records]
        return {"object": "list", "data": listing}

    return await call.answer(branches * PER_ENTRY, make)


async def create(call: Call) -> Response:
    """Start a request that nobody's connection holds; it is read and steered by its id."""
    body = Body(await call.json())
    return await _start(call, await read_request(body, call))


async def read(call: Call) -> Response:
    record = _record(call)
    place = call.services.registry.place(record)
    return await call.answer(seconds(record), lambda: request_object(record, place, texts=True))


async def forget(call: Call) -> Response:
    record = _record(call)
    cancel(record)
    call.services.registry.remove(record)
    return json_response({"id": record.id, "deleted": True})


async def cancel_all(call: Call) -> Response:
    record = _record(call)
    cancel(record)
    return json_response({"id": record.id, "verb": "cancel"}, _RUNNING)


async def events(call: Call) -> Response:
    """Everything that happens to a request, from its beginning or ``after`` the given event on."""
    return await _follow(call, None)


async def branch_events(call: Call) -> Response:
    record = _record(call)
    return await _follow(call, record.index(_branch(call, record)))


async def _follow(call: Call, only: int | None) -> Response:
    record = _record(call)
    given = call.query.get("after") or call.request.headers.get("last-event-id") or "0"
    if not given.isdecimal() or len(given) > 12:
        raise bad("after", "after: expected the number of an event")
    if int(given) and len(record.generations) > 1:
        raise bad("after", "after: a request of several prompts is followed from its beginning")
    writer = EventLines(call, record, sse=True, rich=True, only=only, first=int(given))
    return await call.stream(record, frames(call, record, writer, after=int(given)), own=False)


async def add_branches(call: Call) -> Response:
    record = _record(call)
    if len(record.generations) > 1:
        raise bad("n", "branches can only be added to a request of one prompt")
    body = Body(await call.json())
    generation = record.generation
    live = sum(branch.live for branch in generation.branches)
    n = read_n(split_branches(body)[0], 1, call.services.max_n - live)
    like = generation.branches[0]
    base = replace(like.sampling, seed=None)
    _, samplings, stops = await call.read(lambda: read_branches(body, call, n, base, like.stop_rule))
    for k, one in enumerate(samplings):
        generation.add_branch(1, one, stops[k] if isinstance(stops, tuple) else stops)
    return json_response({"id": record.id, "verb": "add", "n": n}, _RUNNING)


async def read_branch(call: Call) -> Response:
    record = _record(call)
    branch = _branch(call, record)
    index = record.index(branch)
    return await call.answer(
        len(branch.buffer.ids) * PER_ENTRY, lambda: {**branch_object(branch, ids=True), "index": index}
    )


async def patch_branch(call: Call) -> Response:
    """Change how a branch goes on: any sampler, any stop rule; what is not named stays."""
    record = _record(call)
    branch = _branch(call, record)
    body = Body(await call.json())
    sampling = await call.read(lambda: read_sampling(body, branch.sampling, call.engine))
    branch.set_sampling(sampling)
    branch.set_stop(read_stop(body, branch.stop_rule))
    return _done(record, branch, "patch")


async def steer(call: Call) -> Response:
    """One verb on one branch. It acts within a step and disturbs no other branch."""
    record = _record(call)
    branch = _branch(call, record)
    name = call.path["verb"]
    body = Body(await call.json())
    if name == "fork":
        return await _fork(call, record, branch, body)
    if name == "pick":
        return await _pick(call, record, branch, body)
    verb = VERBS.get(name)
    if verb is None:
        raise ApiError(404, f"there is no verb {name}; there are {', '.join((*VERBS, 'fork', 'pick'))}")
    await call.read(lambda: verb(branch, body, call))
    return _done(record, branch, name)


def _reroll(branch: Branch, body: Body, call: Call) -> None:
    sampling = read_sampling(body, replace(branch.sampling, seed=None), call.engine)
    branch.reroll(sampling.seed, sampling, read_stop(body, branch.stop_rule))


def _extend(branch: Branch, body: Body, call: Call) -> None:
    tokens = body.size("max_tokens", -1, 1)
    if set(body.values) <= {"max_tokens"}:
        branch.extend(tokens if tokens > 0 else None)
    else:
        branch.extend(read_stop(body, branch.stop_rule))


def _rewind(branch: Branch, body: Body, call: Call) -> None:
    units = [name for name in ("tokens", "chars", "sentences") if body.has(name)]
    if len(units) != 1:
        raise bad("tokens", "give exactly one of tokens, chars and sentences")
    amount = body.integer(units[0], 1, 1, 2**31 - 1, hard=True)
    branch.rewind(**{units[0]: amount}, seed=body.seed())


def _append(branch: Branch, body: Body, call: Call) -> None:
    text = body.text("text")
    if not text:
        raise bad("text", "Field 'text': missing")
    branch.append(text, body.flag("go_on"))


VERBS: dict[str, Callable[[Branch, Body, Call], None]] = {
    "stop": lambda branch, body, call: branch.stop(),
    "kill": lambda branch, body, call: branch.kill(),
    "pause": lambda branch, body, call: branch.pause(),
    "resume": lambda branch, body, call: branch.resume(),
    "reroll": _reroll,
    "extend": _extend,
    "rewind": _rewind,
    "append": _append,
}


async def _fork(call: Call, record: Record, branch: Branch, body: Body) -> Response:
    """A new request that goes on from where this branch is now; the branch itself is not touched."""
    n = read_n(split_branches(body)[0], 1, call.services.max_n)
    base = replace(branch.sampling, seed=None)
    _, sampling, stop = await call.read(lambda: read_branches(body, call, n, base, branch.stop_rule))
    request = Request(
        prompt=await branch_runs({"request": record.id, "branch": record.index(branch)}, call),
        n=n,
        sampling=sampling,
        stop=stop,
        add_bos=False,
        **read_options(body, call.settings.context_shift, call.engine),
    )
    if request.lora is None:
        request = replace(request, lora=branch.generation.request.lora)
    return await _start(call, request)


async def _pick(call: Call, record: Record, branch: Branch, body: Body) -> Response:
    """Keep what this branch has written and let the others go; a new request may name it as parent.

    ``chars`` keeps only the beginning of its text. Answers when the branch has ended: until then it may write
    another token.
    """
    for other in record.branches:
        if other is branch:
            other.stop()
        elif other.live:
            other.kill()
    with Follower(call.services.bridge, record.generations) as follower:
        async for news in follower.batches(call.settings.timeout):
            if not branch.live or not news:
                break
    record.picked = record.index(branch)
    parent: dict[str, Any] = {"request": record.id, "branch": record.picked}
    value: dict[str, Any] = {**branch_object(branch), "index": record.picked, "verb": "pick"}
    value["parent"] = parent
    if body.has("chars"):
        parent["chars"] = body.integer("chars", 0, 0, len(value["text"]))
        value["text"] = value["text"][: parent["chars"]]
    return json_response(value)


async def _start(call: Call, request: Request) -> Response:
    rules = request.stop if isinstance(request.stop, tuple) else (request.stop,)
    if request.overflow == "shift" and any(r.max_tokens is None and r.max_seconds is None for r in rules):
        raise bad(
            "max_tokens",
            "Field 'max_tokens': needed here, or max_seconds: nobody's connection would ever end this text",
        )
    requests = for_each_branch(request, Body(await call.json()), call.engine)
    record = await call.submit(requests, new_id())
    headers = {"Location": f"/srb/v1/requests/{record.id}", **call.queue(record)}
    return json_response(request_object(record, int(headers["X-Queue"])), _RUNNING, headers)


def _record(call: Call) -> Record:
    return call.record(call.path["id"])


def _branch(call: Call, record: Record) -> Branch:
    text = call.path["branch"]
    if not text.isdecimal() or len(text) > 6:
        raise ApiError(404, f"request {record.id} has no branch {text}")
    return record.branch(int(text))


def _done(record: Record, branch: Branch, verb: str) -> Response:
    return json_response({"id": record.id, "index": record.index(branch), "verb": verb}, _RUNNING)
