"""Prompts that fill a gap between two texts, for models trained with tokens for it. Knows tokens only."""

from __future__ import annotations

from .backend import Backend
from .types import NotSupported, Prompt, TokenRun

NO_MARKS = "this model has no tokens for filling a gap in a text; load one that was trained for it"


def infill_ids(engine: Backend, prefix: Prompt, suffix: str) -> list[int]:
    """Return the prompt for the text between ``prefix`` and ``suffix``, https://arxiv.org/pdf/2409.12186.

    Text beyond the context is left out where it is farthest from the gap. Raises NotSupported.
    """
    if engine.fim is None:
        raise NotSupported(NO_MARKS)
    pre, suf, mid = engine.fim
    before: list[int] = []
    for item in (TokenRun(prefix),) if isinstance(prefix, str) else prefix:
        before += [item] if not isinstance(item, TokenRun) else (item.ids or engine.tokenize(item.text))
    after = engine.tokenize(suffix)
    room = engine.n_ctx - engine.n_ctx // 4 - 4  # a quarter is for what is written
    of_suffix = min(len(after), max(room // 4, room - len(before)))
    of_prefix = min(len(before), room - of_suffix)
    return [pre, *before[len(before) - of_prefix :], suf, *after[:of_suffix], mid]
