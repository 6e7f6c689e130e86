"""Questions to the model besides writing: unexplored tokens.

No client reads the texts of these requests. They are submitted a few at a time, since each one counts as a
running request, and the server has room for few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from srbwriter.engine.generation import Generation
from srbwriter.engine.openings import Fork, fork_of, question
from srbwriter.engine.types import Request
from srbwriter.server.context import Context, json_response
from srbwriter.server.dialects.srb.handles import RUNNING
from srbwriter.server.errors import bad, from_engine
from srbwriter.server.prompts import read_ids
from srbwriter.server.registry import new_id
from srbwriter.server.reply import token_object
from srbwriter.server.streams import Follower, cancel

AT_ONCE = 32


async def answered(context: Context, asked: Sequence[Request]) -> list[Generation]:
    """All of ``asked``, when they are done. Raises ApiError for one that failed."""
    portion = max(min(AT_ONCE, context.settings.max_requests), 1)
    done: list[Generation] = []
    for start in range(0, len(asked), portion):
        done += await _portion(context, asked[start : start + portion])
    return done


async def _portion(context: Context, asked: Sequence[Request]) -> Sequence[Generation]:
    record = await context.submit(asked, new_id())
    try:
        with Follower(context.services.notifier, record.generations) as follower:
            await follower.finish()
    finally:
        cancel(record)
        context.services.registry.remove(record)
    error = next((g.error for g in record.generations if g.error is not None), None)
    if error is not None:
        raise from_engine(error)
    return record.generations


# ---- what could follow


async def unexplored(context: Context) -> Response:
    """Answer with likely next tokens of a request's prompt, and which of its branches begin with each."""
    record = context.record(context.path["id"])
    fork = await context.until_gone(_fork(context, record.generation))
    return await context.answer(0.0, lambda: {"id": record.id, **_fork_body(context, fork)})


async def open_unexplored(context: Context) -> Response:
    """Let another branch of a request begin with a token of the fork, or with any."""
    record = context.record(context.path["id"])
    if len(record.generations) > 1:
        raise bad("token", "branches can only be added to a request of one prompt")
    token = (await context.fields()).raw("token")
    ids = read_ids("token", None if token is None else [token], context.engine)
    fork = await context.until_gone(_fork(context, record.generation))
    generation = record.generation
    if sum(branch.live for branch in generation.branches) >= context.services.max_n:
        raise bad("token", f"{context.services.max_n} branches are live, more are not possible")
    generation.add_branch(1, begin=(*fork.after, *ids))
    value = {"id": record.id, "verb": "add", "n": 1, "begin": [*fork.after, *ids]}
    return json_response(value, RUNNING)


async def _fork(context: Context, generation: Generation) -> Fork:
    """Where the branches of a request part. Raises ApiError."""
    after: tuple[int, ...] = ()
    while True:
        (answer,) = await answered(context, [question(generation, after)])
        fork = fork_of(generation, after, answer.next_logprobs, context.engine)
        if fork.further is None:
            return fork
        after = fork.further


def _fork_body(context: Context, fork: Fork) -> dict[str, Any]:
    engine = context.engine
    return {
        "covered": fork.covered,
        "after": list(fork.after),
        "openings": [
            {
                **token_object(engine, opening.token),
                "probability": opening.probability,
                "branches": list(opening.branches),
            }
            for opening in fork.openings
        ],
    }
