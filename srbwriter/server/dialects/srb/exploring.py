"""What branches do not show of what could follow, and the ways on that are likely, token by token."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields as fields_of
from dataclasses import replace
from typing import Any, get_args

from starlette.responses import Response

from srbwriter.engine.exploring import Ends, Exploration, Exploring, Fork, fork_of, question
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import InvalidRequest
from srbwriter.server.answers import finite, token_object
from srbwriter.server.context import Context, json_response
from srbwriter.server.dialects.srb.asking import answered
from srbwriter.server.dialects.srb.completions import read_request
from srbwriter.server.dialects.srb.handles import RUNNING
from srbwriter.server.errors import bad, from_engine
from srbwriter.server.fields import Fields, read_ids


async def unexplored(context: Context) -> Response:
    """What could follow a request's prompt, and which of its branches go on so."""
    record = context.record(context.path["id"])
    fork = await context.until_gone(_fork(context, record.generation))
    return await context.answer(0.0, lambda: {"id": record.id, **_told(context, fork)})


async def open_unexplored(context: Context) -> Response:
    """Let another branch of a request begin with a token of the fork, or with any."""
    record = context.record(context.path["id"])
    if len(record.generations) > 1:
        raise bad("token", "branches can only be added to a request of one prompt")
    ids = read_ids("token", [Fields(await context.json()).raw("token")], context.engine)
    fork = await context.until_gone(_fork(context, record.generation))
    generation = record.generation
    if sum(branch.live for branch in generation.branches) >= context.services.max_n:
        raise bad("token", f"{context.services.max_n} branches are live, more are not possible")
    generation.add_branch(1, begin=(*fork.after, *ids))
    value = {"id": record.id, "verb": "add", "n": 1, "begin": [*fork.after, *ids]}
    return json_response(value, RUNNING)


async def explore(context: Context) -> Response:
    """Follow the ways on from a prompt that are likely enough; nothing is drawn."""
    fields = Fields(await context.json())
    wanted = _wanted(fields)
    first = replace(await read_request(fields, context), n=1, takes=())
    try:
        exploration = Exploration(first, wanted, context.engine.eog)
    except InvalidRequest as error:
        raise from_engine(error) from error
    await context.until_gone(_follow(context, exploration))

    def make() -> Mapping[str, Any]:
        return {
            "ways": [
                {
                    "text": way.text, "ids": way.ids, "logprob": finite(way.logprob),
                    "probability": math.exp(way.logprob), "ended": way.ended,
                }
                for way in exploration.ways
            ],
            "tokens": exploration.tokens,
        }  # fmt: skip

    return await context.answer(0.0, make)


def _wanted(fields: Fields) -> Exploring:
    """Which ways are wanted. Raises ApiError (400)."""
    told: dict[str, Any] = {}
    for field in fields_of(Exploring):
        if not fields.has(field.name):
            continue
        if field.name == "ends":
            told["ends"] = fields.text("ends")
            if told["ends"] not in get_args(Ends):
                raise bad("ends", f"Field 'ends': expected {', '.join(get_args(Ends))}")
        elif isinstance(field.default, int):
            told[field.name] = fields.integer(field.name, field.default)
        else:
            told[field.name] = fields.number(field.name, 0.0)
    return Exploring(**told)


async def _follow(context: Context, exploration: Exploration) -> None:
    while asked := exploration.requests():
        exploration.hear(await answered(context, asked), context.engine)


async def _fork(context: Context, generation: Generation) -> Fork:
    """Where the branches of a request part. Raises ApiError."""
    after: tuple[int, ...] = ()
    while True:
        (told,) = await answered(context, [question(generation, after)])
        fork = fork_of(generation, after, told.next_logprobs, context.engine)
        if fork.further is None:
            return fork
        after = fork.further


def _told(context: Context, fork: Fork) -> dict[str, Any]:
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
