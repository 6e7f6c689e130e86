"""The likely first tokens of a request's branches, and the words that these begin.

This module submits nothing: the caller submits the requests to a backend and hands back the results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from .backend import Backend
from .generation import Generation
from .types import ONLY_READ, Priority, Request, Sampling, Stop

TOP = 40
"""Likeliest first tokens that are reported of a fork."""
SURE = 0.95
"""A token that is at least so probable is no choice."""
_FORCED = 4  # tokens that are gone past, to find one
_WORD_TOKENS = 6  # that are written at most, to complete a word
_AFTER_WORD = (" ", "\n", "\t", *'.,;:!?…—–"”“')
_IN_WORD = "'’-"


class Opening(NamedTuple):
    """A token, the model's probability of it before any sampler, and the branches that begin with it."""

    token: int
    raw: bytes  # what it writes
    probability: float
    branches: tuple[int, ...]


class Fork(NamedTuple):
    """What could follow where branches of a request part: after its prompt and the tokens ``after``."""

    after: tuple[int, ...]
    openings: tuple[Opening, ...]  # the likeliest first

    @property
    def covered(self) -> float:
        """The total probability of the tokens that branches begin with."""
        return sum(opening.probability for opening in self.openings if opening.branches)

    @property
    def further(self) -> tuple[int, ...] | None:
        """The tokens after which the next fork is, where this is none: one token is as good as certain.

        So it is as a rule where the end of a word, or a full stop, has to be spelt again.
        """
        first = self.openings[0] if self.openings else None
        if first is None or first.probability < SURE or len(self.after) >= _FORCED:
            return None
        return (*self.after, first.token)


def question(generation: Generation, after: tuple[int, ...] = ()) -> Request:
    """Ask what could follow the prompt of a request: nothing is evaluated where its logits are known.

    With ``after`` it is about the prompt as it was evaluated, with more tokens behind it.
    """
    request = replace(
        generation.request, n=1, sampling=Sampling(), stop=ONLY_READ, next_logprobs=TOP, logprobs=None,
        prompt_logprobs=None, next_ids=(), begin=(), without=(), takes=(), logits_callback=None,
        siblings="independent",
    )  # fmt: skip
    if not after:
        return request
    return replace(request, prompt=(*generation.prompt_ids, *after), heal=False, add_bos=False)


def completion(generation: Generation, after: tuple[int, ...], token: int) -> Request:
    """Return the request that writes the likeliest rest of the word that ``token`` begins at a fork."""
    return replace(
        question(generation, (*after, token)), next_logprobs=None, priority=Priority.NORMAL,
        sampling=Sampling(temperature=0), stop=Stop(max_tokens=_WORD_TOKENS, after_any=_AFTER_WORD),
    )  # fmt: skip


def needs_completion(raw: bytes) -> bool:
    """Return whether a token may be the beginning of a longer word."""
    text = raw.decode("utf-8", "replace")
    return bool(text) and (text[-1].isalnum() or text[-1] in _IN_WORD or text[-1] == "\ufffd")


def rest_of_word(ids: Sequence[int], pieces: Sequence[bytes]) -> tuple[tuple[int, ...], bytes]:
    """Return the tokens at the beginning of ``ids`` that continue a word, and what they write."""
    count, raw = 0, b""
    for end in range(1, len(ids) + 1):
        written = b"".join(pieces[:end])
        try:
            text = written.decode()
        except UnicodeDecodeError:  # the next token completes the character
            continue
        if not all(letter.isalnum() or letter in _IN_WORD for letter in text):
            break
        count, raw = end, written
    return tuple(ids[:count]), raw


def fork_of(
    generation: Generation, after: tuple[int, ...], likely: Sequence[tuple[int, float]], engine: Backend
) -> Fork:
    """Return which of the reported next tokens the branches of ``generation`` begin with.

    Where token healing requires a prefix, only tokens that spell it are reported, and their probabilities are
    shares of the sum of these.
    """
    count, begun = len(after), dict[int, list[int]]()
    for branch in generation.branches:
        ids = tuple(branch.buffer.ids[: count + 1])
        if len(ids) > count and ids[:count] == after:
            begun.setdefault(ids[count], []).append(branch.index)
    tokens = [token for token, _ in likely]
    pieces = dict(zip(tokens, engine.pieces(tokens), strict=True))
    healed = b"" if after else generation.healed.encode()
    known = {token: math.exp(logprob) for token, logprob in likely if pieces[token].startswith(healed)}
    whole = sum(known.values()) if healed else 1.0
    openings = (
        Opening(token, pieces[token][len(healed) :], share / whole, tuple(begun.get(token, ())))
        for token, share in known.items()
    )
    return Fork(after, tuple(openings))
