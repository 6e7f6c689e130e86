"""Completions as event lines: ``/srb/v1/completions``, or ``/v1/completions`` with a body of this dialect.

Byte for byte as the first single-request-batching server wrote them: ``data: `` and JSON with ``", "`` and
``": "`` between its parts, non-ASCII as escapes, one line feed. On request the frames end in a blank line,
and carry token ids, logprobs and reasons.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine import limits
from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Branch
from srbwriter.engine.parameters import BY_NAME
from srbwriter.engine.types import (
    Added,
    Cut,
    Finished,
    FinishReason,
    PhraseBanned,
    Priority,
    Prompt,
    PromptProgress,
    Request,
    Sampling,
    StateChanged,
    Stop,
    Text,
    TokenLogprob,
    TokenRun,
)
from srbwriter.server.body import (
    Fields,
    branch_samplings,
    read_n,
    read_options,
    read_sampling,
    read_stop,
)
from srbwriter.server.context import Context
from srbwriter.server.errors import ApiError, Dialect, bad
from srbwriter.server.prompts import read_prompts, wants_bos
from srbwriter.server.registry import Record
from srbwriter.server.reply import finite
from srbwriter.server.services import Services
from srbwriter.server.streams import EVENTS, PING, News
from srbwriter.session.framing import wish_prompt
from srbwriter.session.wishes import read_wish

OTHERS_FIELDS = ("model", "stream", "echo", "logprobs", "best_of", "suffix", "stream_options")
"""A body of ``/v1/completions`` that has one of these was written for OpenAI's dialect."""

DEFAULT_STOP = Stop(max_tokens=65, after_any=(".", "\n"), after_min_tokens=3)
"""Ends at a sentence or line after the first three tokens. The original's limit of 64 let 65 through."""

_HEADERS = {
    # The original sent its lines as HTML; kept for its clients, and made harmless should a browser show them.
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": "sandbox",
    "x-content-type-options": "nosniff",
}


SRB = Dialect("srb", lambda error: {"error": error.message, **error.extra})
"""The errors of single-request batching."""


PRIORITIES = ("normal", "background")
"""What a client may ask for: as anybody, while nobody else writes, or while nothing at all is to be done."""


async def completions(context: Context) -> Response:
    await context.fields()
    read = partial(_read, parent=context.parent(), sse=context.switch("sse"), rich=context.switch("rich"))
    return await context.reply(*await context.read(read))


def _read(
    fields: Fields, services: Services, *, parent: Branch | None, sse: bool, rich: bool
) -> tuple[list[Request], EventLines]:
    request = read_request(fields, services, parent)
    lines = EventLines(sse=sse, rich=rich or fields.flag("rich"))
    return [request], lines


def read_request(fields: Fields, services: Services, parent: Branch | None = None) -> Request:
    """Return the request of an SRB body. Raises ApiError (400).

    With a ``parent`` it continues that branch, token by token, and ``prompt`` is text typed after it.
    """
    settings, engine = services.settings, services.engine
    common, _ = split_branches(fields)
    n = read_n(common, min(settings.n, services.max_n), services.max_n)
    ended = fields.has("stop") or fields.has("boundary")
    base = Stop(max_tokens=DEFAULT_STOP.max_tokens) if ended else DEFAULT_STOP
    common, sampling, stop = read_branches(fields, engine, n, settings.sampling, base)
    if parent is None:
        prompts = read_prompts(fields.raw("prompt"), engine)
        if len(prompts) != 1:
            raise bad("prompt", "Field 'prompt': one prompt only")
        prompt = with_wish(prompts[0], fields)
    else:
        if fields.text("wish"):
            raise bad("wish", "Field 'wish': not with a parent; send the text as the prompt")
        typed = fields.text("prompt")
        prompt = (*parent_runs(fields, parent, engine), *((TokenRun(typed),) if typed else ()))
    request = Request(
        prompt=prompt,
        add_bos=wants_bos(prompt) and parent is None,  # a parent begins as it was evaluated
        n=n,
        sampling=sampling,
        stop=stop,
        priority=read_priority(fields),
        logprobs=fields.size("logprobs", 0) if fields.has("logprobs") else None,
        **read_options(common, settings.context_shift, engine),
    )
    return services.put_system_before(request) if isinstance(prompt, str) else request


def with_wish(prompt: Prompt, fields: Fields, passage: str = "", after: str = "") -> Prompt:
    """Return ``prompt`` with the client's wish near its end, if there is one. Raises ApiError (400).

    It is about new text, or about ``passage``, which stands between the prompt and ``after``.
    """
    if not fields.text("wish").strip():
        return prompt
    if not isinstance(prompt, str):
        raise bad("wish", "Field 'wish': the prompt must be text")
    try:
        return wish_prompt(prompt, read_wish(fields.text("wish")), passage, after)
    except ValueError as error:
        raise bad("wish", f"Field 'wish': {error}") from None


# ---- values for each branch


def read_priority(fields: Fields) -> Priority:
    """Return the priority: a client may lower it, never raise it. Raises ApiError (400)."""
    name = fields.text("priority", "normal")
    if name not in PRIORITIES:
        raise bad("priority", f"Field 'priority': expected one of {', '.join(PRIORITIES)}")
    return Priority[name.upper()]


def split_branches(fields: Fields) -> tuple[Fields, list[Fields] | None]:
    """Fields that hold for all branches, and those with a list of values, one a branch, as one body each.

    A list is one value a branch where the field takes a single value, and a list of lists (or nulls) where it
    takes a list. None where there is no such field. Raises ApiError (400) for lists of several lengths.
    """
    listed = {name: value for name, value in fields.values.items() if _for_each(name, value)}
    if not listed:
        return fields, None
    lengths = {len(value) for value in listed.values()}
    name = next(iter(listed))
    if len(lengths) > 1:
        raise bad(name, f"Fields {', '.join(listed)}: lists of values for each branch must be equally long")
    count = lengths.pop()
    n = fields.integer("n", count)
    if n != count:
        raise bad(name, f"Field '{name}': {count} values for {n} branches")
    common = {name: value for name, value in fields.values.items() if name not in listed}
    own = [{name: value[k] for name, value in listed.items()} for k in range(count)]
    return Fields({**common, "n": count}), [Fields(values) for values in own]


def _for_each(name: str, value: Any) -> bool:
    """Whether a field holds one value a branch."""
    parameter = BY_NAME.get(name)
    if parameter is None or parameter.record == "request" or not isinstance(value, list) or not value:
        return False
    items = cast("list[Any]", value)
    if parameter.kind in ("texts", "ids"):
        return all(item is None or isinstance(item, list) for item in items) and any(items)
    return parameter.kind != "biases" and len(items) <= limits.BRANCHES


def read_branches(
    fields: Fields, engine: Backend, n: int, sampling: Sampling, stop: Stop
) -> tuple[Fields, tuple[Sampling, ...], tuple[Stop, ...] | Stop]:
    """How each of n branches is written, from ``sampling`` and ``stop`` on. Raises ApiError (400).

    An explicit seed counts up from branch to branch, unless there is one for each.
    """
    fields, own = split_branches(fields)
    sampling, stop = read_sampling(fields, sampling, engine), read_stop(fields, stop)
    every = branch_samplings(sampling, n)
    if own is None:
        return fields, every, stop
    if len(own) != n:
        raise bad("n", f"Field 'n': values for {len(own)} branches, and there are {n}")
    pairs: Sequence[tuple[Fields, Sampling]] = list(zip(own, every, strict=True))
    return (
        fields,
        tuple(read_sampling(one, base, engine) for one, base in pairs),
        tuple(read_stop(one, stop) for one in own),
    )


# ---- the text of a parent


def parent_runs(fields: Fields, parent: Branch, engine: Backend) -> tuple[TokenRun, ...]:
    """Return a parent's prompt and text, or the first ``chars`` characters of its text.

    Raises ApiError (400).
    """
    given = Fields(fields.mapping("parent") or {})
    if not given.has("chars"):
        return branch_runs(parent, engine)
    chars = given.integer("chars", 0)
    limits.check_range("chars", chars, 0, len(parent.text))
    return branch_runs(parent, engine, chars)


def branch_runs(branch: Branch, engine: Backend, chars: int = -1) -> tuple[TokenRun, ...]:
    """The prompt and text of a branch.

    Of its text only the first ``chars`` characters, where that is given: token by token as far as these go.
    Before its first token, a branch of a healed prompt has yet to spell the prompt's last word.
    """
    generation, buffer, whole = branch.generation, branch.buffer, branch.text
    chars = len(whole) if chars < 0 else chars
    if chars == len(whole) and (not buffer.ends or buffer.ends[-1] <= chars):  # nothing is held back
        kept, tail = len(buffer.ids), buffer.tail if buffer.ids else generation.healed + whole
    else:
        kept, begun = _spelled(buffer.ends, chars)
        tail = ("" if kept else generation.healed) + whole[begun:chars]
    ids = (*generation.prompt_ids, *buffer.ids[:kept])
    runs = (TokenRun(engine.detokenize(ids), ids, engine.info.vocab),)
    return (*runs, TokenRun(tail)) if tail else runs


def _spelled(ends: Sequence[int], chars: int) -> tuple[int, int]:
    """How many tokens spell no more than the first ``chars`` characters, and how many characters they do.

    ``ends``: characters decoded after each token. Tokens that begin a character they do not end are left out.
    """
    within = bisect_right(ends, chars)
    if not within or ends[within - 1] < 0:  # or of the prompt's healed word only
        return 0, 0
    reached = ends[within - 1]
    return bisect_left(ends, reached) + 1, reached


# ---- the answer

_NATURAL = frozenset({FinishReason.STOP, FinishReason.LINE, FinishReason.SENTENCE, FinishReason.PARAGRAPH})


class EventLines:
    """``start``, ``stream``, ``stop`` and ``done``; with ``rich`` also what else happens to branches."""

    stream = True

    def __init__(self, *, sse: bool, rich: bool, only: int | None = None, first: int = -1) -> None:
        """``only`` one branch, or all. ``first``: number the events on, beginning after this one."""
        self._rich = rich
        self.headers = {"content-type": EVENTS} if sse else _HEADERS
        self._end = "\n\n" if sse else "\n"
        self.ping = PING if sse else b""
        self._only, self._number = only, first
        self._started = False
        self._pieces: dict[int, int] = {}

    def begin(self, record: Record) -> None:
        self._record = record
        for event in record.generation.log[: max(self._number, 0)]:
            if isinstance(event, Text):
                self._pieces[event.branch] = self._pieces.get(event.branch, 0) + 1

    def whole(self) -> Any:
        raise NotImplementedError  # it is always a stream

    def batch(self, news: News) -> bytes:
        out: list[str] = []
        if not self._started:
            self._started = True
            out.append(self._line(self._start()))
        for number, event in news:
            value = self._event(event, number * self._record.generation.request.n)
            if self._number >= 0:
                self._number += 1
            if value is not None and self._only in (None, value.get("index", self._only)):
                out.append(self._line(value))
        return "".join(out).encode()

    def waiting(self, place: int) -> bytes:
        """Only the richer form says it; the original knew no such line."""
        event = {"event": "queue", "place": place, "id": self._record.id}
        return self._line(event).encode() if self._rich else self.ping

    def end(self) -> bytes:
        done: dict[str, Any] = {"event": "done", "count": self._count}
        if self._rich:
            done["prompt_tokens"] = self._record.prompt_tokens
            done["cached_tokens"] = self._record.cached_tokens
            done["completion_tokens"] = self._record.written
        return self._line(done).encode()

    def error(self, error: ApiError) -> bytes:
        return self._line({"event": "error", **SRB.body(error)}).encode()

    @property
    def _count(self) -> int:
        return len(self._record.branches)

    def _start(self) -> dict[str, Any]:
        start: dict[str, Any] = {"event": "start", "count": self._count}
        if self._rich:
            start["id"] = self._record.id
        return start

    def _line(self, value: dict[str, Any]) -> str:
        id = f"id: {self._number}\n" if self._number >= 0 else ""
        return f"{id}data: {json.dumps(value)}{self._end}"

    def _event(self, event: object, offset: int) -> dict[str, Any] | None:
        if isinstance(event, Text):
            return self._text(event, event.branch + offset)
        if isinstance(event, Finished):
            return self._finished(event, event.branch + offset)
        return self._more(event, offset) if self._rich else None

    def _text(self, event: Text, index: int) -> dict[str, Any] | None:
        if not event.text and not self._rich:
            return None
        self._pieces[index] = self._pieces.get(index, 0) + 1
        value: dict[str, Any] = {"event": "stream", "index": index, "text": event.text}
        if self._rich:
            value["ids"] = event.ids
            if event.logprobs:
                value["logprobs"] = [_logprob(entry) for entry in event.logprobs]
        return value

    def _finished(self, event: Finished, index: int) -> dict[str, Any]:
        value: dict[str, Any] = {
            "event": "stop",
            "index": index,
            # The original counted from nought: one less than the pieces it had sent.
            "length": max(0, self._pieces.get(index, 0) - 1),
            "stop": int(event.reason in _NATURAL),
        }
        if self._rich:
            value |= {"reason": str(event.reason), "tokens": event.tokens, "stop_text": event.stop_text}
        if event.problem is not None:
            value["error"] = event.problem
        return value

    def _more(self, event: object, offset: int) -> dict[str, Any] | None:
        match event:
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


def _logprob(entry: TokenLogprob) -> dict[str, Any]:
    return {"id": entry.id, "logprob": finite(entry.logprob), "top": [list(pair) for pair in entry.top]}
