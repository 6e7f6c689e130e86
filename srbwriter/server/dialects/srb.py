"""Single-request batching: n branches of one prompt as event lines, with handles to steer each of them.

``/v1/completions`` answers byte for byte as the first single-request-batching server did: ``data: `` and JSON
with ``", "`` and ``": "`` between its parts, non-ASCII as escapes, one line feed, sent as HTML.
``/srb/v1/completions`` sends the same events as an event stream. With ``rich`` they carry token ids,
log-probabilities and reasons.
"""

from __future__ import annotations

import codecs
import json
from dataclasses import asdict, replace
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine import limits
from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch
from srbwriter.engine.parameters import BY_NAME
from srbwriter.engine.types import (
    ONLY_READ,
    Added,
    Cut,
    Finished,
    PhraseBanned,
    Priority,
    PromptProgress,
    Request,
    Sampling,
    StateChanged,
    Stop,
    Text,
    TokenLogprob,
    TokenRun,
)
from srbwriter.engine.verbs import HTTP_VERBS, VERBS
from srbwriter.version import __version__

from ..answer import EVENTS, NATURAL, PING, Answer, finite, token_object
from ..body import Body, branch_samplings, misspelt, read_n, read_options, read_sampling, read_stop
from ..errors import ApiError, as_api_error, bad, missing
from ..http import Call, Dialect, Row, json_response
from ..prompts import is_integer, read_ids, read_prompts, read_single_prompt, wants_bos
from ..registry import Record, new_id
from ..run import Follower, News, Services

OTHERS_FIELDS = ("model", "stream", "echo", "logprobs", "best_of", "suffix", "stream_options")
"""A body of ``/v1/completions`` that has one of these was written for OpenAI's dialect."""

DEFAULT_STOP = Stop(max_tokens=65, after_any=(".", "\n"), after_min_tokens=3)
"""Ends at a sentence or line after the first three tokens. The original's limit of 64 let 65 through."""

PRIORITIES = tuple(one.name.lower() for one in Priority if one >= Priority.NORMAL)
"""What a client may ask for: it may lower its priority, never raise it."""

_VERBS = tuple(verb.name for verb in HTTP_VERBS)
_OWN = ("prompt", "parent", "logprobs", "priority", "rich")
RUNNING = 202


def error_body(error: ApiError) -> dict[str, Any]:
    return {"error": error.message, **error.extra}


# ---- what is asked


def read_request(body: Body, services: Services, parent: Branch | None = None) -> Request:
    """Return the request of a body. Raises ApiError (400).

    With a ``parent`` it continues that branch, token by token, and ``prompt`` is text typed after it.
    """
    settings, engine = services.settings, services.engine
    ended = body.has("stop") or body.has("boundary")
    base, most = Stop(max_tokens=DEFAULT_STOP.max_tokens) if ended else DEFAULT_STOP, services.max_n
    usual = min(settings.n, most)
    common, n, sampling, stop = read_branches(body, services, settings.sampling, base, usual, most)
    priority = body.text("priority", "normal")
    if priority not in PRIORITIES:
        raise bad("priority", f"expected one of {', '.join(PRIORITIES)}")
    if parent is None:
        prompt = read_single_prompt(body.raw("prompt"), engine)
    else:
        typed = body.text("prompt")
        prompt = (*_parent_runs(body, parent, engine), *((TokenRun(typed),) if typed else ()))
    request = Request(
        prompt=prompt,
        add_bos=wants_bos(prompt) and parent is None,  # a parent begins as it was evaluated
        n=n,
        sampling=sampling,
        stop=stop,
        priority=Priority[priority.upper()],
        logprobs=body.size("logprobs", 0) if body.has("logprobs") else None,
        **read_options(common),
    )
    return services.put_system_before(request) if isinstance(prompt, str) else request


def read_branches(
    body: Body, services: Services, sampling: Sampling, stop: Stop, n: int, most: int
) -> tuple[Body, int, tuple[Sampling, ...], tuple[Stop, ...] | Stop]:
    """Return how each branch is written, from ``sampling`` and ``stop`` on, and the fields for all of them.

    ``n`` is their usual number, and ``most`` are possible. A list is one value a branch where the field takes
    a single value, and a list of lists (or nulls) where it takes a list. An explicit seed counts up from
    branch to branch, unless there is one for each. Raises ApiError (400).
    """
    listed: dict[str, list[Any]] = {}
    for name, value in body.values.items():
        row = BY_NAME.get(name)
        if row is None or row.record == "request" or row.kind == "biases" or not isinstance(value, list):
            continue
        items = cast("list[Any]", value)
        if row.kind in ("texts", "ids"):
            each = any(items) and all(item is None or isinstance(item, list) for item in items)
        else:
            each = 0 < len(items) <= limits.BRANCHES
        if each:
            listed[name] = items
    engine, count = services.engine, len(next(iter(listed.values()), ()))
    if any(len(items) != count for items in listed.values()):
        problem = f"Fields {', '.join(listed)}: lists of values for each branch must be equally long"
        raise ApiError(400, problem, field=next(iter(listed)))
    common = Body({name: value for name, value in body.values.items() if name not in listed})
    n = read_n(common, count or n, most)
    if listed and n != count:
        raise bad(next(iter(listed)), f"{count} values for {n} branches")
    sampling, stop = read_sampling(common, sampling, engine), read_stop(common, stop)
    samplings = branch_samplings(sampling, n)
    if not listed:
        return common, n, samplings, stop
    own = [Body({name: items[k] for name, items in listed.items()}) for k in range(n)]
    samplings = tuple(read_sampling(one, base, engine) for one, base in zip(own, samplings, strict=True))
    return common, n, samplings, tuple(read_stop(one, stop) for one in own)


def _parent_runs(body: Body, parent: Branch, engine: Backend) -> tuple[TokenRun, ...]:
    """Return a parent's prompt and text, or the first ``chars`` characters of its text: by its tokens, as far
    as these spell whole characters of it, and what is left as text. Raises ApiError (400).

    Before its first token, a branch of a healed prompt has yet to spell the prompt's last word.
    """
    chars = Body(body.mapping("parent") or {}).integer("chars", len(parent.text))
    limits.check_range("chars", chars, 0, len(parent.text))
    kept = end = place = 0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for count, piece in enumerate(engine.pieces(parent.ids), 1):
        place += len(decoder.decode(piece))
        if not decoder.getstate()[0] and 0 <= place - parent.overlap <= chars:
            kept, end = count, place - parent.overlap
    generation, text = parent.generation, parent.text[:chars]
    tail = text[end:] if kept else generation.healed + text
    ids = (*generation.prompt_ids, *parent.ids[:kept])
    runs = (TokenRun(engine.detokenize(ids), ids, engine.info.vocab),)
    return (*runs, TokenRun(tail)) if tail else runs


# ---- the answer


class EventLines(Answer):
    """``start``, ``stream``, ``stop`` and ``done``; with ``rich`` also what else happens to branches."""

    error_body = staticmethod(error_body)

    def __init__(self, *, sse: bool, rich: bool, only: int | None = None, first: int = -1) -> None:
        """``only`` one branch, or all. ``first``: number the events on, beginning after this one."""
        self.stream, self._rich, self._only, self._number = True, rich, only, first
        self.headers = {"content-type": EVENTS} if sse else _HEADERS
        self._end = "\n\n" if sse else "\n"
        self.ping = PING if sse else b""
        self._started = False
        self._pieces: dict[int, int] = {}

    def begin(self, record: Record) -> None:
        super().begin(record)
        for event in record.generation.log[: max(self._number, 0)]:
            if isinstance(event, Text):
                self._pieces[event.branch] = self._pieces.get(event.branch, 0) + 1

    def frames(self, news: News) -> bytes:
        out: list[str] = []
        if not self._started:
            self._started = True
            start = {"event": "start", "count": len(self.record.branches)}
            out.append(self._line({**start, "id": self.record.id} if self._rich else start))
        for number, event in news:
            value = self._event(event, number * self.record.generation.request.n)
            if self._number >= 0:
                self._number += 1
            if value is not None and self._only in (None, value.get("index", self._only)):
                out.append(self._line(value))
        return "".join(out).encode()

    def end(self) -> bytes:
        record = self.record
        done: dict[str, Any] = {"event": "done", "count": len(record.branches)}
        if self._rich:
            done |= _counts(record)
        return self._line(done).encode()

    def error(self, error: ApiError) -> bytes:
        return self._line({"event": "error", **error_body(error)}).encode()

    def _line(self, value: dict[str, Any]) -> str:
        id = f"id: {self._number}\n" if self._number >= 0 else ""
        return f"{id}data: {json.dumps(value)}{self._end}"

    def _event(self, event: object, offset: int) -> dict[str, Any] | None:
        match event:
            case Text(branch, text, ids, logprobs) if text or self._rich:
                index = branch + offset
                self._pieces[index] = self._pieces.get(index, 0) + 1
                value: dict[str, Any] = {"event": "stream", "index": index, "text": text}
                if self._rich:
                    value["ids"] = ids
                    if logprobs:
                        value["logprobs"] = list(map(_logprob, logprobs))
                return value
            case Finished(branch, reason):
                index = branch + offset
                # The original counted from nought: one less than the pieces it had sent.
                length = max(0, self._pieces.get(index, 0) - 1)
                value = {"event": "stop", "index": index, "length": length, "stop": int(reason in NATURAL)}
                if self._rich:
                    value |= {"reason": str(reason), "tokens": event.tokens, "stop_text": event.stop_text}
                return value if event.problem is None else {**value, "error": event.problem}
            case _ if not self._rich:
                return None
            case PromptProgress(done, total, cached):
                return {"event": "prompt", "done": done, "total": total, "cached": cached}
            case Cut(branch, chars, tokens):
                return {"event": "cut", "index": branch + offset, "chars": chars, "tokens": tokens}
            case PhraseBanned(branch, phrase, tokens):
                return {"event": "banned", "index": branch + offset, "phrase": phrase, "tokens": tokens}
            case Added(branch):
                return {"event": "added", "index": branch + offset}
            case StateChanged(branch, state):
                return {"event": "state", "index": branch + offset, "state": str(state)}
            case _:
                return None


def _logprob(known: TokenLogprob) -> dict[str, Any]:
    top = [(id, finite(logprob)) for id, logprob in known.top]
    return {"id": known.id, "logprob": finite(known.logprob), "top": top}


_HEADERS = {
    # The original sent its lines as HTML; kept for its clients, and made harmless should a browser show them.
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": "sandbox",
    "x-content-type-options": "nosniff",
}


async def completions(call: Call) -> Response:
    rich = call.switch("rich") or call.body.flag("rich")
    parent = call.parent()
    request = await call.work(lambda: read_request(call.body, call.services, parent))
    answer = EventLines(sse=call.request.url.path.startswith("/srb/"), rich=rich)
    response = await call.reply([request], answer)
    if note := misspelt(call.body, _OWN):
        response.headers["X-Note"] = note.encode("ascii", "backslashreplace").decode()
    return response


def has_no_other_fields(call: Call) -> bool:
    return call.body.values.keys().isdisjoint(OTHERS_FIELDS)


# ---- what could follow


async def next_tokens(call: Call) -> Response:
    """Answer with the ``k`` likeliest tokens after a prompt, or after each of several, and those of ``ids``.

    With ``from`` also the prompt's own tokens from that number on, with as many others of each place.
    """
    body, parent, engine = call.body, call.parent(), call.engine

    def read() -> list[Request]:
        ids = tuple(read_ids("ids", body.raw("ids"), engine)) if body.has("ids") else ()
        whole = None if parent is None else _parent_runs(body, parent, engine)
        prompts = [whole] if whole is not None else read_prompts(body.raw("prompt"), engine)
        first = max(body.integer("from", 1), 1) if body.has("from") else None
        k, options = body.size("k", USUAL, like="logprobs"), read_options(body)
        requests = [
            Request(
                prompt=prompt, stop=ONLY_READ, next_logprobs=k, next_ids=ids,
                add_bos=wants_bos(prompt) and whole is None,
                prompt_logprobs=None if first is None else k, score_from=first or 0, **options,
            )
            for prompt in prompts
        ]  # fmt: skip
        if first is not None:  # its tokens are counted from the prompt's own beginning
            return requests
        put = call.services.put_system_before
        return [put(one) if isinstance(one.prompt, str) else one for one in requests]

    record = await call.submit(await call.work(read))
    prompt = cast("list[Any]", body.raw("prompt"))
    several = parent is None and isinstance(prompt, list) and not any(map(is_integer, prompt))  # pyright: ignore

    def make() -> dict[str, Any]:
        scored = [
            {
                **({"prompt": list(map(_logprob, generation.prompt_logprobs))} if body.has("from") else {}),
                "tokens": [
                    token_object(engine, token, logprob=finite(p)) for token, p in generation.next_logprobs
                ],
                "prompt_tokens": len(generation.prompt_ids),
                "cached_tokens": generation.cached_tokens,
            }
            for generation in record.generations
        ]  # fmt: skip
        return {"data": scored} if several else scored[0]

    return await call.whole(record, make)


USUAL = 10
"""Tokens reported by default."""


def model(call: Call) -> dict[str, Any]:
    """Describe the backend to another srbwriter, without paths and devices of this machine."""
    engine = call.engine
    info = asdict(engine.info) | {"path": "", "name": call.services.model_name}
    del info["device"]
    return {
        "version": __version__, "info": info, "n_ctx": engine.n_ctx, "max_n": call.services.max_n,
        "lacks": dict(engine.capabilities.missing),
    }  # fmt: skip


# ---- handles: requests that run on their own


def _counts(record: Record) -> dict[str, int]:
    return {
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "completion_tokens": record.written,
    }


def branch_object(branch: Branch, index: int, *, ids: bool = False) -> dict[str, Any]:
    """Return what a branch is now; with ``ids`` also its tokens and their logprobs."""
    value: dict[str, Any] = {
        "index": index,
        "state": str(branch.state),
        "reason": None if branch.finish_reason is None or branch.live else str(branch.finish_reason),
        "stop_text": branch.stop_text,
        "error": None if branch.error is None else branch.error.words,
        "text": branch.text,
        "tokens": len(branch.ids),
        "seed": branch.seed,
        "bans": branch.bans,
        "tokens_per_second": round(branch.tokens_per_second, 2),
    }
    if ids:
        value["ids"] = list(branch.ids)
        value["logprobs"] = [finite(entry.logprob) for entry in branch.logprobs]
    return value


def request_object(call: Call, record: Record, *, texts: bool = False) -> dict[str, Any]:
    """Return what a request is now; ``texts`` adds its branches."""
    error = record.error
    value: dict[str, Any] = {
        "id": record.id,
        "created": int(record.created),
        "state": "running" if record.live else "failed" if error is not None else "done",
        "error": None if error is None else as_api_error(error).message,
        "count": len(record.branches),
        "picked": record.picked,
        **_counts(record),
        "events": sum(len(generation.log) for generation in record.generations),
    }
    if texts:
        value["branches"] = [branch_object(branch, index) for index, branch in enumerate(record.branches)]
    return value


def requests(call: Call) -> dict[str, Any]:
    """List this client's requests; an admin's key sees those of all."""
    records = call.services.registry.of(call.client)
    return {"object": "list", "data": [request_object(call, record) for record in records]}


async def create(call: Call) -> Response:
    """Start a request that outlives its connection; clients read and steer it by its id."""
    parent = call.parent()
    request = await call.work(lambda: read_request(call.body, call.services, parent))
    record = await call.submit([request], new_id())
    value, note = request_object(call, record), misspelt(call.body, _OWN)
    headers = {"Location": f"/srb/v1/requests/{record.id}"}
    return json_response({**value, "note": note} if note else value, RUNNING, headers)


def forget(call: Call) -> dict[str, Any]:
    record = call.record()
    record.cancel()
    call.services.registry.remove(record)
    return {"id": record.id, "deleted": True}


def cancel_all(call: Call) -> Response:
    record = call.record()
    record.cancel()
    return json_response({"id": record.id, "verb": "cancel"}, RUNNING)


def promote(call: Call) -> Response:
    """Serve a background or prefetch request as any other; its text stays."""
    record = call.record()
    for generation in record.generations:
        if generation.request.priority > Priority.NORMAL:
            generation.promote(Priority.NORMAL)
    return json_response({"id": record.id, "verb": "promote"}, RUNNING)


async def events(call: Call) -> Response:
    """Follow a request or one of its branches, from its beginning or ``after`` the given event on."""
    record = call.record()
    only = _branch(call)[1] if "branch" in call.path else None
    after = call.query.get("after") or call.request.headers.get("last-event-id") or "0"
    if not after.isdecimal() or len(after) > 12:
        raise ApiError(400, "after: expected the number of an event", field="after")
    if int(after) and len(record.generations) > 1:
        raise ApiError(
            400, "after: a request of several prompts is followed from its beginning", field="after"
        )
    lines = EventLines(sse=True, rich=True, only=only, first=int(after))
    lines.begin(record)
    return await call.stream(record, lines, after=int(after), own=False)


async def add_branches(call: Call) -> Response:
    record = call.record()
    if len(record.generations) > 1:
        raise ApiError(400, "branches can only be added to a request of one prompt", field="n")
    generation = record.generation
    live = sum(branch.live for branch in generation.branches)
    like, most = generation.branches[0], call.services.max_n - live
    base = replace(like.sampling, seed=None)
    _, n, samplings, stops = await call.work(
        lambda: read_branches(call.body, call.services, base, like.stop_rule, 1, most)
    )
    generation.add_branch(n, samplings, stops)  # all of them or none
    return json_response({"id": record.id, "verb": "add", "n": n}, RUNNING)


# ---- steering one branch


def _branch(call: Call) -> tuple[Record, int, Branch]:
    """Return the branch that the path names, with its number. Raises ApiError (404)."""
    record, text = call.record(), call.path["branch"]
    if not text.isdecimal() or len(text) > 6:
        raise ApiError(404, f"request {record.id} has no branch {text}")
    return record, int(text), record.branch(int(text))


def read_branch(call: Call) -> dict[str, Any]:
    _, index, branch = _branch(call)
    return branch_object(branch, index, ids=True)


async def patch_branch(call: Call) -> Response:
    """Change a branch's samplers and stop rules; fields that the body leaves out stay."""
    record, index, branch = _branch(call)
    body, engine = call.body, call.engine
    branch.change(*await call.work(
        lambda: (read_sampling(body, branch.sampling, engine), read_stop(body, branch.stop_rule))
    ))  # fmt: skip
    whole = [name for name in body.values if (row := BY_NAME.get(name)) and row.record == "request"]
    note = "; ".join(
        (*(f"{name} is for a whole request" for name in whole), *filter(None, [misspelt(body, ())]))
    )
    done = {"id": record.id, "index": index, "verb": "patch"}
    return json_response({**done, "note": note} if note else done, RUNNING)


async def steer(call: Call) -> Response | dict[str, Any]:
    """Do one verb on one branch. It acts within a step and disturbs no other branch."""
    record, index, branch = _branch(call)
    name, body = call.path["verb"], call.body
    if name == "pick":
        return await _pick(call, record, index, branch)
    if name not in _VERBS:
        raise ApiError(404, f"there is no verb {name}; there are {', '.join(_VERBS)} and pick")
    own = {"rewind": ("tokens", "chars", "sentences"), "append": ("text", "go_on")}.get(name, ())

    def count(field: str) -> int | None:
        limits.check_range(field, body.integer(field, 1), 1, 2**31 - 1)
        return body.integer(field, 1) if body.has(field) else None

    def read() -> dict[str, Any]:
        match name:
            case "reroll":
                sampling = read_sampling(body, replace(branch.sampling, seed=None), call.engine)
                return {"seed": body.seed(), "sampling": sampling, "stop": read_stop(body, branch.stop_rule)}
            case "extend" if set(body.values) <= {"max_tokens"}:  # so many tokens more
                return {"stop": count("max_tokens")}
            case "extend":
                return {"stop": read_stop(body, branch.stop_rule)}
            case "rewind":
                return {"seed": body.seed(), **{field: count(field) for field in own}}
            case "append" if not body.text("text"):
                raise missing("text")
            case "append":
                return {"text": body.text("text"), "go_on": body.flag("go_on")}
            case _:
                return {}

    given = await call.work(read)
    problem = VERBS[name].problem(branch, given)
    await call.work(lambda: getattr(branch, name)(**given))  # it may be in another state by now
    note = f"{name} does nothing: branch {index} {problem}" if problem else misspelt(body, own)
    done = {"id": record.id, "index": index, "verb": name}
    return json_response({**done, "note": note} if note else done, RUNNING)


async def _pick(call: Call, record: Record, index: int, branch: Branch) -> dict[str, Any]:
    """Keep what this branch has written and let the others go; a new request may name it as parent.

    ``chars`` keeps only the beginning of its text. Answers when the branch has ended: until then it may write
    another token.
    """
    chars = max(call.body.integer("chars", 0), 0) if call.body.has("chars") else None
    for other in record.branches:
        if other is branch:
            other.stop()
        elif other.live:
            other.kill()
    with Follower(call.services.notifier, record.generations) as follower:
        async for news in follower.batches(call.settings.timeout):
            if not branch.live or not news:
                break
    record.picked = index
    parent: dict[str, Any] = {"request": record.id, "branch": index}
    value = {**branch_object(branch, index), "verb": "pick", "parent": parent}
    if chars is None:
        return value
    parent["chars"] = min(chars, len(branch.text))
    return {**value, "text": branch.text[:chars]}


_REQUESTS = "/srb/v1/requests"
_REQUEST = _REQUESTS + "/{id}"
_BRANCH = _REQUEST + "/branches/{branch}"
_BODY = "prompt parent:object logprobs:integer priority rich:boolean +"
DIALECT = Dialect(
    "Single-request batching",
    (
        Row("POST /v1/completions", completions, "event lines for a body that has none of these fields",
            _BODY, claims=has_no_other_fields),
        Row("POST /srb/v1/completions", completions, "n branches of a prompt as events", _BODY,
            query="rich:boolean"),
        Row("GET /srb/v1/model", model, "the model, its context and what it lacks"),
        Row("POST /srb/v1/next", next_tokens, "what could follow a prompt, and how likely it is",
            "prompt parent:object k:integer ids:ids from:integer"),
        Row(f"GET {_REQUESTS}", requests, "requests that can be addressed"),
        Row(f"POST {_REQUESTS}", create, "start a request and return its id", _BODY),
        Row(f"GET {_REQUEST}", lambda call: request_object(call, call.record(), texts=True),
            "a request and its branches"),
        Row(f"DELETE {_REQUEST}", forget, "cancel a request and forget it"),
        Row(f"POST {_REQUEST}/cancel", cancel_all, "stop every branch, keep the text"),
        Row(f"POST {_REQUEST}/promote", promote, "write as soon as any what was asked ahead"),
        Row(f"GET {_REQUEST}/events", events, "follow a request", query="after:integer"),
        Row(f"POST {_REQUEST}/branches", add_branches, "add branches", "+"),
        Row(f"GET {_BRANCH}", read_branch, "a branch with its tokens"),
        Row(f"PATCH {_BRANCH}", patch_branch, "change sampling and stop rules", "+"),
        Row(f"GET {_BRANCH}/events", events, "follow one branch", query="after:integer"),
        Row(f"POST {_BRANCH}/{{verb}}", steer,
            f"{', '.join(_VERBS)} or pick a branch",
            "tokens:integer chars:integer sentences:integer text go_on:boolean +"),
    ),
    error_body,
    prefixes=("/srb/",),
)  # fmt: skip
