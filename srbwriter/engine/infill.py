"""Prompts that fill a gap between two texts, for models trained with tokens for it. Knows tokens only.

The pattern is that of most such models, https://arxiv.org/pdf/2409.12186: other texts first, each with its
name where the vocabulary has tokens for that, then prefix, suffix, and the middle token.
"""

from __future__ import annotations

from collections.abc import Sequence

from .backend import Backend
from .types import NotSupported, Prompt, TokenRun

NO_MARKS = "this model has no tokens for filling a gap in a text; load one that was trained for it"
_WRITTEN = 4  # a quarter of the context is left for what is written
_SUFFIX = 4  # and of the rest, a quarter is the suffix's where both sides are long
_SNIPPET = "\n\n--- snippet ---\n\n"


def infill_ids(
    engine: Backend, prefix: Prompt, suffix: str, files: Sequence[tuple[str, str]] = ()
) -> list[int]:
    """Return the prompt for the text between ``prefix`` and ``suffix``; ``files`` are names and texts.

    Text beyond the context is left out where it is farthest from the gap. Raises NotSupported.
    """
    if engine.fim is None:
        raise NotSupported(NO_MARKS)
    pre, suf, mid = engine.fim
    before, after = _ids(engine, prefix), engine.tokenize(suffix)
    room = engine.n_ctx - engine.n_ctx // _WRITTEN - 4  # the marks, and a beginning
    of_suffix = min(len(after), max(room // _SUFFIX, room - len(before)))
    of_prefix = min(len(before), room - of_suffix)
    others = _others(engine, files)
    kept = _last(others, room - of_suffix - of_prefix)
    return [*kept, pre, *_last(before, of_prefix), suf, *after[:of_suffix], mid]


def _last(ids: list[int], count: int) -> list[int]:
    return ids[max(len(ids) - count, 0) :]


def _others(engine: Backend, files: Sequence[tuple[str, str]]) -> list[int]:
    """Texts to be read before the gap, marked as the vocabulary marks them."""
    repository, file = engine.fim_files
    ids: list[int] = []
    if files and repository is not None:
        ids += [repository, *engine.tokenize("myproject\n")]
    for name, text in files:
        if file is None:
            ids += engine.tokenize(_SNIPPET)
        else:
            ids += [file, *engine.tokenize(f"{name or 'tmp'}\n")]
        ids += engine.tokenize(text)
    if files and file is not None:
        ids += [file, *engine.tokenize("filename\n")]
    return ids


def _ids(engine: Backend, prompt: Prompt) -> list[int]:
    if isinstance(prompt, str):
        return engine.tokenize(prompt)
    ids: list[int] = []
    for item in prompt:
        ids += [item] if not isinstance(item, TokenRun) else (item.ids or engine.tokenize(item.text))
    return ids
