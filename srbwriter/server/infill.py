"""Prompts that fill a gap between two texts, for models trained with tokens for it."""

from __future__ import annotations

from collections.abc import Sequence

from srbwriter.engine.backend import Backend
from srbwriter.engine.types import Prompt, TokenRun

from .errors import ApiError


def infill_ids(engine: Backend, prefix: Prompt, suffix: str, extra: Sequence[int] = ()) -> list[int]:
    """``extra``, then prefix, suffix and middle mark, in the order most models were trained with.

    Raises ApiError (501) when the model has no such tokens.
    """
    marks = engine.fim
    if marks is None:
        raise ApiError(501, "this model has no tokens for filling a gap in a text")
    pre, suf, mid = marks
    return [*extra, pre, *_ids(engine, prefix), suf, *engine.tokenize(suffix), mid]


def _ids(engine: Backend, prompt: Prompt) -> list[int]:
    if isinstance(prompt, str):
        return engine.tokenize(prompt)
    ids: list[int] = []
    for item in prompt:
        ids += [item] if not isinstance(item, TokenRun) else (item.ids or engine.tokenize(item.text))
    return ids
