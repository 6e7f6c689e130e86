"""Token by token: what could follow a prompt, and how likely it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from starlette.responses import Response

from srbwriter.engine.backend import Backend
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import ONLY_READ, Request
from srbwriter.server.body import Fields, read_options
from srbwriter.server.context import Context
from srbwriter.server.dialects.srb.completions import parent_runs
from srbwriter.server.dialects.srb.handles import branch_of
from srbwriter.server.prompts import read_ids, read_prompts, wants_bos
from srbwriter.server.reply import finite, token_object
from srbwriter.server.services import Services

USUAL = 10
"""Tokens reported by default."""


async def next_tokens(context: Context) -> Response:
    """The ``k`` likeliest tokens after a prompt, or after each of several, and those of ``ids``.

    With ``from`` also the prompt's own tokens from that number on, with as many others of each place.
    """
    fields = await context.fields()
    parent = context.parent()

    def read(fields: Fields, services: Services) -> list[Request]:
        engine = services.engine
        given = fields.raw("ids")
        ids = () if given is None else tuple(read_ids("ids", given, engine))
        whole = None if parent is None else parent_runs(fields, parent, engine)
        prompts = [whole] if whole is not None else read_prompts(fields.raw("prompt"), engine)
        first = max(fields.integer("from", 1), 1) if fields.has("from") else None
        options = read_options(fields, False, engine)
        k = fields.size("k", USUAL, like="logprobs")
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
        put_before = services.put_system_before
        return [put_before(one) if isinstance(one.prompt, str) else one for one in requests]

    record = await context.submit(await context.read(read))
    several = parent is None and _several(fields.raw("prompt"))

    def make() -> Mapping[str, Any]:
        scored = [_scores(context.engine, generation) for generation in record.generations]
        return {"data": scored} if several else scored[0]

    return await context.whole(record, make)


async def branch_tokens(context: Context) -> Response:
    """Answer with the tokens of a branch as it is now, and the alternatives at each place."""
    record = context.record(context.path["id"])
    branch = branch_of(context, record)
    fields = await context.fields()
    written = len(branch.buffer.ids)
    start = max(0, min(fields.integer("from", 0), written))
    end = max(start, min(fields.integer("to", written), written))
    k = fields.size("k", USUAL, like="logprobs")
    before, ids = branch.generation.prompt_ids, tuple(branch.buffer.ids)
    asked = Request(
        prompt=(*before, *ids[:end]), prompt_logprobs=k, score_from=len(before) + start, stop=ONLY_READ,
        add_bos=False,
        cache_salt=branch.generation.request.cache_salt,
    )  # fmt: skip
    scored = await context.submit([asked])

    def make() -> Mapping[str, Any]:
        engine, known = context.engine, scored.generation.prompt_logprobs
        known = known[len(known) - (end - start) :] if end > start else []
        tokens = [
            {"at": at, **listed(engine, [(one.id, one.logprob)])[0], "alternatives": listed(engine, one.top)}
            for at, one in enumerate(known, start)
        ]
        return {"id": record.id, "index": record.index(branch), "tokens": tokens}

    return await context.whole(scored, make)


def _several(prompt: object) -> bool:
    """Whether a body names a list of prompts, and not one of token ids."""
    return isinstance(prompt, list) and not any(isinstance(one, int) for one in cast("list[object]", prompt))


def _scores(engine: Backend, generation: Generation) -> dict[str, Any]:
    scored = [
        {"id": one.id, "logprob": finite(one.logprob), "top": [(id, finite(p)) for id, p in one.top]}
        for one in generation.prompt_logprobs
    ]
    return {
        **({"prompt": scored} if generation.request.prompt_logprobs is not None else {}),
        "tokens": listed(engine, generation.next_logprobs),
        "prompt_tokens": len(generation.prompt_ids),
        "cached_tokens": generation.cached_tokens,
    }


def listed(engine: Backend, pairs: Sequence[tuple[int, float]]) -> list[dict[str, Any]]:
    """Return tokens with their log-probabilities; a part of a character is shown by its bytes."""
    return [{**token_object(engine, token), "logprob": finite(logprob)} for token, logprob in pairs]
