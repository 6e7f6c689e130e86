"""Completions as event lines: ``/srb/v1/completions``, or ``/v1/completions`` with a body of this dialect."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from srbwriter.engine.types import Prompt, Request, Stop, TokenRun
from srbwriter.server.body import Body
from srbwriter.server.call import EVENTS, Call
from srbwriter.server.errors import bad
from srbwriter.server.lora import for_each_branch
from srbwriter.server.params import read_branches, read_n, read_options, split_branches
from srbwriter.server.prompt import read_prompts, wants_bos
from srbwriter.server.stream import frames
from srbwriter.server.work import PER_ENTRY, off_loop

from .events import EventLines

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


def is_srb(values: Mapping[str, Any]) -> bool:
    return not any(name in values for name in OTHERS_FIELDS)


async def completions(call: Call) -> Response:
    call.dialect = "srb"
    body = Body(await call.json())
    requests = for_each_branch(await read_request(body, call), body, call.engine)
    record = await call.submit(requests)
    sse = call.switch("sse")
    rich = call.switch("rich") or body.flag("rich")
    headers = {"content-type": EVENTS} if sse else _HEADERS
    return await call.stream(
        record, frames(call, record, EventLines(call, record, sse=sse, rich=rich)), headers=headers
    )


async def read_request(body: Body, call: Call) -> Request:
    """The one prompt of an SRB request and how its branches are to be written. Raises ApiError (400)."""
    parent = body.mapping("parent")
    before = await branch_runs(parent, call) if parent is not None else None
    return await call.read(lambda: _read(body, call, before))


def _read(body: Body, call: Call, before: tuple[TokenRun, ...] | None) -> Request:
    common, _ = split_branches(body)
    n = read_n(common, min(call.settings.n, call.services.max_n), call.services.max_n)
    ended = body.has("stop") or body.has("boundary")
    base = Stop(max_tokens=DEFAULT_STOP.max_tokens) if ended else DEFAULT_STOP
    common, sampling, stop = read_branches(body, call, n, call.settings.sampling, base)
    prompt = _prompt(body, call, before)
    return Request(
        prompt=prompt,
        add_bos=wants_bos(prompt) and before is None,  # a parent begins as it was evaluated
        n=n,
        sampling=sampling,
        stop=stop,
        logprobs=body.size("logprobs", 0) if body.has("logprobs") else None,
        **read_options(common, call.settings.context_shift, call.engine),
    )


def _prompt(body: Body, call: Call, before: tuple[TokenRun, ...] | None) -> Prompt:
    """``prompt``, or the text of a parent branch with ``prompt`` after it, continued token by token."""
    if before is None:
        prompts = read_prompts(body.raw("prompt"), call.engine)
        if len(prompts) != 1:
            raise bad("prompt", "Field 'prompt': one prompt only")
        return prompts[0]
    typed = body.text("prompt")
    return (*before, TokenRun(typed)) if typed else before


async def branch_runs(parent: Mapping[str, Any], call: Call) -> tuple[TokenRun, ...]:
    """The prompt and text of the branch that ``{"request": id, "branch": i}`` names.

    Of its text only the first ``chars`` characters, where that is given: token by token as far as these go.
    Before its first token, a branch of a healed prompt has yet to spell the prompt's last word.
    """
    fields, engine = Body(parent), call.engine
    branch = call.record(fields.text("request")).branch(fields.integer("branch", 0))
    generation, buffer, whole = branch.generation, branch.buffer, branch.text
    chars = fields.integer("chars", len(whole), 0, len(whole), hard=True)
    if chars == len(whole):
        kept, tail = len(buffer.ids), buffer.tail if buffer.ids else generation.healed + whole
    else:
        kept, begun = _spelled(buffer.ends, chars)
        tail = ("" if kept else generation.healed) + whole[begun:chars]
    ids = (*generation.prompt_ids, *buffer.ids[:kept])
    text = await off_loop(len(ids) * PER_ENTRY, lambda: engine.detokenize(ids))
    runs = (TokenRun(text, ids, engine.info.vocab),)
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
