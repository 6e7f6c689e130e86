"""Prompts that fill a gap between two texts, for models trained with tokens for it. Knows tokens only.

The pattern is that of most such models, https://arxiv.org/pdf/2409.12186: other texts first, each with its
name where the vocabulary has tokens for that, then prefix, suffix, and the middle token.
"""

from __future__ import annotations

from collections.abc import Sequence

from .backend import Backend
from .types import NotSupported, Prompt, TokenRun

NO_MARKS = "this model has no tokens for filling a gap in a text; load one that was trained for it"


def infill_ids(
    engine: Backend, prefix: Prompt, suffix: str, files: Sequence[tuple[str, str]] = ()
) -> list[int]:
    """Return the prompt for the text between ``prefix`` and ``suffix``; ``files`` are names and texts.

    Text beyond the context is left out where it is farthest from the gap. Raises NotSupported.
    """
    if engine.fim is None:
        raise NotSupported(NO_MARKS)
    pre, suf, mid = engine.fim
    before: list[int] = []
    for item in (TokenRun(prefix),) if isinstance(prefix, str) else prefix:
        before += [item] if not isinstance(item, TokenRun) else (item.ids or engine.tokenize(item.text))
    after = engine.tokenize(suffix)
    repository, file = engine.fim_files
    others: list[int] = []
    if files and repository is not None:
        others += [repository, *engine.tokenize("myproject\n")]
    for name, text in files:
        mark = [file] if file is not None else []
        heading = f"{name or 'tmp'}\n" if mark else "\n\n--- snippet ---\n\n"
        others += [*mark, *engine.tokenize(heading), *engine.tokenize(text)]
    if files and file is not None:
        others += [file, *engine.tokenize("filename\n")]
    room = engine.n_ctx - engine.n_ctx // 4 - 4  # a quarter is for what is written
    of_suffix = min(len(after), max(room // 4, room - len(before)))
    of_prefix = min(len(before), room - of_suffix)
    kept = others[max(len(others) - room + of_suffix + of_prefix, 0) :]
    return [*kept, pre, *before[len(before) - of_prefix :], suf, *after[:of_suffix], mid]
