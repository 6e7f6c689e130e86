"""From what a request calls its prompt to token ids. Knows a vocabulary only, here or elsewhere."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex, cast

from .limits import check_prompt
from .parameters import notation
from .types import InvalidRequest, Prompt, Request, TokenRun, for_each

if TYPE_CHECKING:
    from .model import Model
    from .remote.vocabulary import LetterVocabulary

MOST_HEALED = 4
"""Tokens that token healing takes off a text, at most."""


def assemble(model: Model, request: Request) -> tuple[list[int], Unfinished]:
    """Token ids of the prompt, and what token healing took off its end.

    Raises InvalidRequest when there is nothing to evaluate, too much to look at, or an id is unknown.
    """
    ids, typed = read_prompt(model, request.prompt, request.parse_special)
    wants_bos = request.add_bos and model.add_bos and model.bos is not None
    if wants_bos and model.bos is not None and ids[:1] != [model.bos]:
        ids = [model.bos, *ids]
    if not ids:
        if model.bos is None:
            raise InvalidRequest("prompt", "it is empty, and this model cannot begin from nothing")
        ids = [model.bos]
    if not request.heal or any(map(notation, for_each(request.sampling, 1))):
        return ids, Unfinished()  # a constraint begins after the prompt: no word of it is healed then
    healed = unfinished(model, ids, typed)
    return ids[: len(ids) - healed.tokens], healed


class Unfinished(NamedTuple):
    """What token healing takes off a text: so many tokens at its end, and what they write."""

    tokens: int = 0
    text: str = ""


def unfinished(model: Model, ids: Sequence[int], text: str) -> Unfinished:
    """What token healing takes off a text that ends in typed ``text``: its last tokens, mostly one.

    It is more than one where a single token begins with what they write: half a word is rarely spelt by
    the beginning of the tokens of the whole word. Nothing after a line break (a finished line is not
    completed), nor where the last token is not text of its own.
    """
    found, end = Unfinished(), ""
    if not text or text.endswith("\n"):
        return found
    for count, token in enumerate(reversed(ids[1:][-MOST_HEALED:]), 1):
        piece = model.pieces.text[token]
        if not piece or "\n" in piece or not text.endswith(piece + end):
            break
        end = piece + end
        if count == 1 or len(model.piece_index.beginning_with(end.encode("utf-8", "replace"))):
            found = Unfinished(count, end)
    return found


def read_prompt(
    model: Model | LetterVocabulary, prompt: Prompt, parse_special: bool
) -> tuple[list[int], str]:
    """Return the token ids of a prompt, and the typed text at its end if it ends in some.

    Neighbouring runs without usable ids are tokenised as one text. Raises InvalidRequest.
    """
    if isinstance(prompt, str):
        check_prompt("prompt", len(prompt))
        return model.tokenize(prompt, False, parse_special), prompt
    runs = _runs(prompt)
    check_prompt("prompt", sum(len(run.text) for run in runs), sum(len(run.ids or ()) for run in runs))
    ids: list[int] = []
    typed = last = ""
    for run in (*runs, TokenRun("", ())):
        if run.ids is None or run.vocab not in (None, model.fingerprint):
            typed += run.text
            continue
        last = typed = typed[: -run.overlap] if run.overlap else typed  # the ids spell the rest themselves
        if typed:
            ids += model.tokenize_continuation(typed) if ids else model.tokenize(typed, False, parse_special)
        model.check_ids(run.ids)
        ids += run.ids
        typed = ""
    return ids, last


def _runs(prompt: object) -> Sequence[TokenRun]:
    """A prompt that is not a text, as runs. Raises InvalidRequest where it is neither runs nor ids."""
    if not isinstance(prompt, Iterable):
        raise InvalidRequest("prompt", f"it is neither text nor a sequence: {type(prompt).__name__}")
    items = list(cast("Iterable[object]", prompt))
    if all(isinstance(item, TokenRun) for item in items):
        return cast("list[TokenRun]", items)
    try:
        return [TokenRun("", tuple(map(operator.index, cast("list[SupportsIndex]", items))))]
    except TypeError:
        raise InvalidRequest("prompt", "it may hold token ids or runs, nothing else") from None
