"""Single-request batching: n branches of one prompt as event lines, each of which can be steered meanwhile.

``/v1/completions`` answers byte for byte as the first single-request-batching server did: ``data: `` and JSON
with ``", "`` and ``": "`` between its parts, non-ASCII as escapes, one line feed, sent as HTML.
``/srb/v1/completions`` sends the same events as an event stream. With ``rich`` they carry token ids,
log-probabilities and reasons.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine import limits
from srbwriter.engine.parameters import BY_NAME
from srbwriter.engine.types import (
    ONLY_READ,
    Added,
    Cut,
    Finished,
    PhraseBanned,
    PromptProgress,
    Request,
    Sampling,
    StateChanged,
    Stop,
    Text,
    TokenLogprob,
)
from srbwriter.engine.verbs import HTTP_VERBS, VERBS

from ..answer import EVENTS, NATURAL, PING, Answer, finite, token_object
from ..body import Body, branch_samplings, misspelt, read_n, read_options, read_sampling, read_stop
from ..errors import ApiError, bad
from ..http import Call, Dialect, Endpoint
from ..prompts import is_integer, read_ids, read_prompts, read_single_prompt, wants_bos
from ..registry import RequestRecord
from ..run import News, Services

OTHERS_FIELDS = ("model", "stream", "echo", "logprobs", "best_of", "suffix", "stream_options")
"""A body of ``/v1/completions`` that has one of these was written for OpenAI's dialect."""

DEFAULT_STOP = Stop(max_tokens=65, after_any=(".", "\n"), after_min_tokens=3)
"""Ends at a sentence or line after the first three tokens. The original's limit of 64 let 65 through."""

_VERBS = tuple(verb.name for verb in HTTP_VERBS)
_OWN = ("prompt", "logprobs", "rich")


def error_body(error: ApiError) -> dict[str, Any]:
    return {"error": error.message, **error.extra}


# ---- what is asked


def read_request(body: Body, services: Services) -> Request:
    """Return the request of a body. Raises ApiError (400)."""
    ended = body.has("stop") or body.has("boundary")
    base = Stop(max_tokens=DEFAULT_STOP.max_tokens) if ended else DEFAULT_STOP
    common, n, sampling, stop = read_branches(body, services, base)
    prompt = read_single_prompt(body.raw("prompt"), services.engine)
    request = Request(
        prompt=prompt,
        add_bos=wants_bos(prompt),
        n=n,
        sampling=sampling,
        stop=stop,
        logprobs=body.size("logprobs", 0) if body.has("logprobs") else None,
        **read_options(common),
    )
    return services.put_system_before(request)


def read_branches(
    body: Body, services: Services, stop: Stop
) -> tuple[Body, int, tuple[Sampling, ...], tuple[Stop, ...] | Stop]:
    """Return the fields for all branches, their number, and how each is written, from ``stop`` on.

    A list is one value a branch where the field takes a single value, and a list of lists (or nulls) where it
    takes a list. An explicit seed counts up from branch to branch, unless there is one for each. Raises
    ApiError (400).
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
    engine, count, most = services.engine, len(next(iter(listed.values()), ())), services.max_n
    if any(len(items) != count for items in listed.values()):
        problem = f"Fields {', '.join(listed)}: lists of values for each branch must be equally long"
        raise ApiError(400, problem, field=next(iter(listed)))
    common = Body({name: value for name, value in body.values.items() if name not in listed})
    n = read_n(common, count or min(services.settings.n, most), most)
    if listed and n != count:
        raise bad(next(iter(listed)), f"{count} values for {n} branches")
    sampling, stop = read_sampling(common, services.settings.sampling, engine), read_stop(common, stop)
    samplings = branch_samplings(sampling, n)
    if not listed:
        return common, n, samplings, stop
    own = [Body({name: items[k] for name, items in listed.items()}) for k in range(n)]
    samplings = tuple(read_sampling(one, base, engine) for one, base in zip(own, samplings, strict=True))
    return common, n, samplings, tuple(read_stop(one, stop) for one in own)


# ---- the answer


class EventLines(Answer):
    """``start``, ``stream``, ``stop`` and ``done``; with ``rich`` also what else happens to branches."""

    error_body = staticmethod(error_body)

    def __init__(self, *, sse: bool, rich: bool) -> None:
        self.stream, self._rich = True, rich
        self.headers = {"content-type": EVENTS} if sse else _HEADERS
        self._end = "\n\n" if sse else "\n"
        self.ping = PING if sse else b""
        self._started = False
        self._pieces: dict[int, int] = {}

    def frames(self, news: News) -> bytes:
        out: list[str] = []
        if not self._started:
            self._started = True
            start = {"event": "start", "count": len(self.record.branches)}
            out.append(self._line({**start, "id": self.record.id} if self._rich else start))
        for number, event in news:
            value = self._event(event, number * self.record.generation.request.n)
            if value is not None:
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
        return f"data: {json.dumps(value)}{self._end}"

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
    request = await call.work(lambda: read_request(call.body, call.services))
    answer = EventLines(sse=call.request.url.path.startswith("/srb/"), rich=rich)
    response = await call.reply([request], answer)
    if note := misspelt(call.body, _OWN):
        response.headers["X-Note"] = note.encode("ascii", "backslashreplace").decode()
    return response


def has_no_other_fields(call: Call) -> bool:
    return call.body.values.keys().isdisjoint(OTHERS_FIELDS)


# ---- what could follow


async def next_tokens(call: Call) -> Response:
    """Answer with the ``k`` likeliest tokens after a prompt or each of several, and those of ``ids``."""
    body, engine = call.body, call.engine

    def read() -> list[Request]:
        ids = tuple(read_ids("ids", body.raw("ids"), engine)) if body.has("ids") else ()
        k, options = body.size("k", USUAL, like="logprobs"), read_options(body)
        return [
            call.services.put_system_before(
                Request(
                    prompt=prompt, stop=ONLY_READ, next_logprobs=k, next_ids=ids, add_bos=wants_bos(prompt),
                    **options,
                )
            )
            for prompt in read_prompts(body.raw("prompt"), engine)
        ]  # fmt: skip

    record = await call.submit(await call.work(read))
    prompt = cast("list[Any]", body.raw("prompt"))
    several = isinstance(prompt, list) and not any(map(is_integer, prompt))  # pyright: ignore

    def make() -> dict[str, Any]:
        found = [
            {
                "tokens": [
                    token_object(engine, token, logprob=finite(p)) for token, p in generation.next_logprobs
                ],
                "prompt_tokens": len(generation.prompt_ids),
                "cached_tokens": generation.cached_tokens,
            }
            for generation in record.generations
        ]
        return {"data": found} if several else found[0]

    return await call.whole(record, make)


USUAL = 10
"""Tokens reported by default."""


# ---- what is written can be steered meanwhile


def _counts(record: RequestRecord) -> dict[str, int]:
    return {
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "completion_tokens": record.written,
    }


def request_object(record: RequestRecord) -> dict[str, Any]:
    """Return what a request and its branches are now."""
    branches = [
        {
            "index": index,
            "state": str(branch.state),
            "reason": None if branch.finish_reason is None or branch.live else str(branch.finish_reason),
            "text": branch.text,
            "tokens": len(branch.ids),
            "seed": branch.seed,
            "bans": branch.bans,
        }
        for index, branch in enumerate(record.branches)
    ]
    return {"id": record.id, **_counts(record), "branches": branches}


def requests(call: Call) -> dict[str, Any]:
    """List this client's requests that are being written; an admin's key sees those of all."""
    own = [one for one in call.services.registry.live() if one.belongs_to(call.client)]
    return {"object": "list", "data": list(map(request_object, own))}


def cancel(call: Call) -> dict[str, Any]:
    record = call.record()
    record.cancel()
    return {"id": record.id, "verb": "cancel"}


async def steer(call: Call) -> dict[str, Any]:
    """Do one verb on one branch. It acts within a step and disturbs no other branch."""
    record, number, name, body = call.record(), call.path["branch"], call.path["verb"], call.body
    branches = record.branches
    if not number.isdecimal() or len(number) > 6 or int(number) >= len(branches):
        raise ApiError(404, f"request {record.id} has no branch {number}; it has {len(branches)}")
    branch = branches[int(number)]
    if name not in _VERBS:
        raise ApiError(404, f"there is no verb {name}; there are {', '.join(_VERBS)}")
    own = ("tokens", "chars", "sentences") if name == "rewind" else ()

    def count(field: str) -> int | None:
        limits.check_range(field, body.integer(field, 1), 1, 2**31 - 1)
        return body.integer(field, 1) if body.has(field) else None

    def read() -> dict[str, Any]:
        match name:
            case "reroll":
                sampling = read_sampling(body, replace(branch.sampling, seed=None), call.engine)
                return {"seed": body.seed(), "sampling": sampling, "stop": read_stop(body, branch.stop_rule)}
            case "change":
                sampling = read_sampling(body, branch.sampling, call.engine)
                return {"sampling": sampling, "stop": read_stop(body, branch.stop_rule)}
            case "extend" if set(body.values) <= {"max_tokens"}:  # so many tokens more
                return {"stop": count("max_tokens")}
            case "extend":
                return {"stop": read_stop(body, branch.stop_rule)}
            case "rewind":
                return {"seed": body.seed(), **{field: count(field) for field in own}}
            case _:
                return {}

    given = await call.work(read)
    problem = VERBS[name].problem(branch, given)
    await call.work(lambda: getattr(branch, name)(**given))  # it may be in another state by now
    note = f"{name} does nothing: branch {number} {problem}" if problem else misspelt(body, own)
    done = {"id": record.id, "index": int(number), "verb": name}
    return {**done, "note": note} if note else done


_BODY = "prompt! logprobs:integer rich:boolean +"
_REQUEST = "/srb/v1/requests/{id}"
DIALECT = Dialect(
    "Single-request batching",
    (
        Endpoint("POST /v1/completions", completions, "event lines for a body that has none of these fields",
            _BODY, claims=has_no_other_fields),
        Endpoint("POST /srb/v1/completions", completions, "n branches of a prompt as events", _BODY,
            query="rich:boolean"),
        Endpoint("POST /srb/v1/next", next_tokens, "what could follow a prompt, and how likely it is",
            "prompt! k:integer ids:ids"),
        Endpoint("GET /srb/v1/requests", requests, "requests that are being written"),
        Endpoint(f"GET {_REQUEST}", lambda call: request_object(call.record()), "a request and its branches"),
        Endpoint(f"POST {_REQUEST}/cancel", cancel, "stop every branch"),
        Endpoint(f"POST {_REQUEST}/branches/{{branch}}/{{verb}}", steer,
            f"steer a branch: {', '.join(_VERBS)}",
            "tokens:integer chars:integer sentences:integer +"),
    ),
    error_body,
    prefixes=("/srb/",),
)  # fmt: skip
