"""From what a request calls its prompt to token ids. Knows the model's vocabulary only."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple, SupportsIndex, cast

import numpy as np

from .limits import check_prompt
from .model import Model
from .parameters import notation
from .sampling_loop import last_token_prefix
from .types import InvalidRequest, Prompt, Request, TokenRun


def assemble(model: Model, request: Request) -> tuple[list[int], bytes]:
    """Token ids of the prompt, and the bytes that token healing took off its end.

    Raises InvalidRequest when there is nothing to evaluate, too much to look at, or an id is unknown.
    """
    ids, typed = _read(model, "prompt", request.prompt, request.parse_special)
    wants_bos = request.add_bos and model.add_bos and model.bos is not None
    if wants_bos and model.bos is not None and ids[:1] != [model.bos]:
        ids = [model.bos, *ids]
    if not ids:
        if model.bos is None:
            raise InvalidRequest("prompt", "it is empty, and this model cannot begin from nothing")
        ids = [model.bos]
    prefix = last_token_prefix(model, ids, typed) if request.heal and not _constrained(request) else b""
    return (ids[:-1], prefix) if prefix else (ids, b"")


def token_ids(model: Model, field: str, prompt: Prompt, parse_special: bool) -> list[int]:
    """Token ids of something that is written like a prompt. Raises InvalidRequest naming ``field``."""
    try:
        return _read(model, field, prompt, parse_special)[0]
    except InvalidRequest as error:
        raise InvalidRequest(field, error.problem) from None


def _read(model: Model, field: str, prompt: Prompt, parse_special: bool) -> tuple[list[int], str]:
    """Token ids, and the typed text at the end if there is any."""
    if isinstance(prompt, str):
        check_prompt(field, len(prompt))
        return model.tokenize(prompt, False, parse_special), prompt
    runs = _runs(field, prompt)
    check_prompt(field, sum(len(run.text) for run in runs), sum(len(run.ids or ()) for run in runs))
    return _join(model, runs, parse_special)


class Typed(NamedTuple):
    """Typed text as tokens, and how many characters of it are there after each."""

    ids: Sequence[int]
    ends: Sequence[int]


def typed(model: Model, text: str) -> Typed:
    """Tokens of ``text`` that follows other text.

    A character of which a token spells a part counts as there when the last part is.
    """
    ids = model.tokenize_continuation(text)
    pieces = [model.pieces.bytes[token] for token in ids]
    data = text.encode("utf-8", "replace")
    if b"".join(pieces) != data:  # the vocabulary writes it in another way, so nothing is known of the parts
        return Typed(ids, [len(text)] * len(ids))
    begins = np.frombuffer(data, np.uint8) & 0xC0 != 0x80  # bytes with which a character begins
    ends = np.cumsum(begins)[np.cumsum([len(piece) for piece in pieces]) - 1] if data else np.array([])
    return Typed(ids, ends.tolist())


def _constrained(request: Request) -> bool:
    """Whether a constraint is asked for: it begins where the prompt ends, and completes no word of that."""
    samplings = request.sampling if isinstance(request.sampling, tuple) else (request.sampling,)
    return any(notation(sampling) for sampling in samplings)


def _runs(field: str, prompt: object) -> Sequence[TokenRun]:
    """A prompt that is not a text, as runs. Raises InvalidRequest where it is neither runs nor ids."""
    if not isinstance(prompt, Iterable):
        raise InvalidRequest(field, f"it is neither text nor a sequence: {type(prompt).__name__}")
    items = list(cast("Iterable[object]", prompt))
    if all(isinstance(item, TokenRun) for item in items):
        return cast("list[TokenRun]", items)
    try:
        return [TokenRun("", tuple(map(operator.index, cast("list[SupportsIndex]", items))))]
    except TypeError:
        raise InvalidRequest(field, "it may hold token ids or runs, nothing else") from None


def _join(model: Model, runs: Sequence[TokenRun], parse_special: bool) -> tuple[list[int], str]:
    """Ids of all runs in order, and the typed text at the end, if it ends in typed text.

    Neighbouring runs without usable ids are tokenised as one text.
    """
    ids: list[int] = []
    typed = ""

    def settle() -> None:
        nonlocal typed
        if typed:
            first = not ids
            ids.extend(
                model.tokenize(typed, False, parse_special) if first else model.tokenize_continuation(typed)
            )
            typed = ""

    for run in runs:
        if run.ids is not None and run.vocab in (None, model.fingerprint):
            if run.overlap:
                typed = typed[: -run.overlap]  # the ids spell these characters themselves
            settle()
            model.check_ids(run.ids)
            ids.extend(run.ids)
        else:
            typed += run.text
    last = typed
    settle()
    return ids, last
