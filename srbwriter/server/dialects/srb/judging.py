"""Ended branches of a request, judged by a rubric: how likely the model answers its questions with yes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from srbwriter.engine.generation import Branch
from srbwriter.engine.types import Priority, Request
from srbwriter.server.context import Context
from srbwriter.server.dialects.srb.asking import answered
from srbwriter.server.errors import ApiError, bad
from srbwriter.server.fields import Fields
from srbwriter.session.judging import RUBRIC, Answers, answers, asks, may_be_judged, mean, questions

MOST = 1024
"""Questions that one request may ask, of all branches together."""


@dataclass(frozen=True, slots=True)
class _Asked:
    questions: tuple[str, ...]
    answers: tuple[Answers, ...]
    requests: list[Request]


async def judge(context: Context) -> Response:
    """Score the branches that have ended. Nothing is written, and who is still writing is left out."""
    record = context.record(context.path["id"])
    fields = Fields(await context.json())
    ended = {index: branch for index, branch in enumerate(record.branches) if may_be_judged(branch)}
    if not ended:
        raise ApiError(409, "no branch of this request has ended yet")
    asked = await context.read(lambda: _read(fields, context, list(ended.values())))
    asking = await context.until_gone(answered(context, asked.requests))

    def make() -> Mapping[str, Any]:
        told = iter(asking)
        data: list[dict[str, Any]] = []
        for index in ended:
            shares = [one.read(next(told).next_logprobs) for one in asked.answers]
            data.append({"index": index, "score": mean(shares), "answers": shares})
        return {
            "id": record.id,
            "questions": asked.questions,
            "data": data,
            "prompt_tokens": sum(len(one.prompt_ids) for one in asking),
            "cached_tokens": sum(one.cached_tokens for one in asking),
        }

    return await context.answer(0.0, make)


def _read(fields: Fields, context: Context, branches: list[Branch]) -> _Asked:
    rubric = fields.raw("rubric")
    text = "\n".join(Fields({"rubric": rubric}).texts("rubric")) if rubric is not None else RUBRIC
    try:
        asked = questions(text, fields.text("note"))
    except ValueError as error:
        raise bad("rubric", f"Field 'rubric': {error}") from None
    if not asked:
        raise bad("rubric", "Field 'rubric': it asks nothing")
    if len(asked) * len(branches) > MOST:
        raise bad("rubric", f"Field 'rubric': {MOST} questions are possible, of all branches together")
    known = tuple(answers(context.engine, question) for question in asked)
    requests = [one for b in branches for one in asks(context.engine, b, known, Priority.NORMAL)]
    return _Asked(asked, known, requests)
