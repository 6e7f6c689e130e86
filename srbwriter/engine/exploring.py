"""What a text could go on with: its first tokens, and every way that is likely enough, token by token.

Exploration by threshold, as in LLooM: a token is followed where the model gives it at least a share; the
likeliest ways are followed, each until it ends or is long enough. What all ways could go on with is asked at
once, so that they share their batches. Nothing is drawn. Asks nobody itself: whoever has a backend submits
the requests of a level and hands back what came of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from ..prose import SentenceScanner
from .backend import Backend
from .generation import Generation
from .types import InvalidRequest, Request, Stop

Ends = Literal["sentence", "punctuation", "never"]

TOP = 40
"""Likeliest first tokens that are told of a fork."""
MOST_WAYS, MOST_TOKENS = 64, 128
_ONLY_READ = Stop(max_tokens=0)
_PUNCTUATION = ".,;:!?…—–。，、；：！？"
_CLOSING = "\"'”’»)"


class Opening(NamedTuple):
    """A first token, the model's probability of it before any sampler, and which branches begin with it."""

    token: int
    text: str
    probability: float
    branches: tuple[int, ...]


class Fork(NamedTuple):
    """What could follow a prompt. ``covered`` is the probability of all that its branches begin with."""

    covered: float
    openings: tuple[Opening, ...]  # the likeliest first

    @property
    def unexplored(self) -> tuple[Opening, ...]:
        """Those that no branch begins with."""
        return tuple(opening for opening in self.openings if not opening.branches)


def question(generation: Generation) -> Request:
    """Asks what could follow the prompt of a request: nothing is evaluated where its logits are known."""
    asked = generation.request
    return Request(
        generation.prompt_ids, stop=_ONLY_READ, next_logprobs=TOP, priority=asked.priority, add_bos=False,
        lora=asked.lora, label=asked.label, client=asked.client,
    )  # fmt: skip


def fork_of(generation: Generation, told: Sequence[tuple[int, float]], engine: Backend) -> Fork:
    """How the branches of ``generation`` lie among what could follow its prompt, which was ``told``.

    Where the first token has to spell the end of a word again, only tokens that do are told, and their
    probabilities are shares of what all of them have.
    """
    begun: dict[int, list[int]] = {}
    for branch in generation.branches:
        if branch.buffer.ids:
            begun.setdefault(branch.buffer.ids[0], []).append(branch.index)
    pieces = dict(zip((t for t, _ in told), engine.pieces([t for t, _ in told]), strict=True))
    healed = generation.healed.encode()
    known = {t: math.exp(p) for t, p in told if pieces[t].startswith(healed)}
    whole = sum(known.values()) if healed else 1.0
    openings = tuple(
        Opening(
            token, pieces[token][len(healed) :].decode("utf-8", "replace"), p / whole,
            tuple(begun.get(token, ())),
        )
        for token, p in known.items()
    )  # fmt: skip
    return Fork(sum(opening.probability for opening in openings if opening.branches), openings)


@dataclass(frozen=True, slots=True)
class Exploring:
    """Which ways are followed. ``cutoff`` is the least probability of a token, ``multiplier`` changes it with
    each token, ``depth`` are tokens of a way at most and ``beams`` ways.
    """

    cutoff: float = 0.1
    multiplier: float = 1.0
    depth: int = 24
    beams: int = 8
    ends: Ends = "sentence"

    def check(self) -> None:
        """Raises InvalidRequest for what cannot mean anything."""
        bounds: dict[str, tuple[float, float]] = {
            "cutoff": (0, 1), "multiplier": (0, 10), "depth": (1, MOST_TOKENS), "beams": (1, MOST_WAYS)
        }  # fmt: skip
        for name, (low, high) in bounds.items():
            if not low <= getattr(self, name) <= high:
                raise InvalidRequest(name, f"{getattr(self, name)} is not in {low:g} … {high:g}")


@dataclass(frozen=True, slots=True)
class Way:
    """One way on: its tokens, what they write after the prompt, and how probable all of them together are."""

    ids: tuple[int, ...] = ()
    raw: bytes = b""
    logprob: float = 0.0
    ended: bool = False  # by itself, not for its length

    @property
    def text(self) -> str:
        return self.raw.decode("utf-8", "replace")


class Exploration:
    """Follows ways from a prompt. Have its :meth:`requests` done and let it :meth:`hear`, until there are none.

    Args:
        first: the prompt and who asks; its stop rule and what it wants to be told are replaced.
    """

    def __init__(self, first: Request, wanted: Exploring, eog: Collection[int]) -> None:
        wanted.check()
        told = max(TOP, wanted.beams)
        self._first = replace(first, n=1, stop=_ONLY_READ, next_logprobs=told, takes=(), logprobs=None)
        self._wanted, self._eog = wanted, eog
        self._prompt: tuple[int, ...] = ()
        self._open, self._done = [Way()], list[Way]()
        self._level = 0

    @property
    def tokens(self) -> int:
        """How far it has come."""
        return self._level

    @property
    def ways(self) -> list[Way]:
        """All so far, the likeliest first."""
        found = [way for way in (*self._done, *self._open) if way.ids]
        return sorted(found, key=lambda way: -way.logprob)

    def requests(self) -> list[Request]:
        """What has to be known next: nothing at the end."""
        if not self._level:
            return [self._first]
        if self._level >= self._wanted.depth:
            return []
        plain = replace(self._first, heal=False, add_bos=False)
        return [replace(plain, prompt=(*self._prompt, *way.ids)) for way in self._open]

    def hear(self, generations: Sequence[Generation], engine: Backend) -> None:
        """The requests are done, in their order."""
        healed = b""
        if not self._level:
            self._prompt, healed = generations[0].prompt_ids, generations[0].healed.encode()
        least = self._wanted.cutoff * self._wanted.multiplier**self._level
        grown: dict[bytes, Way] = {}
        for way, generation in zip(self._open, generations, strict=True):
            told = generation.next_logprobs
            pieces = engine.pieces([token for token, _ in told])
            likely = [
                self._further(way, token, logprob, piece[len(healed) :])
                for (token, logprob), piece in zip(told, pieces, strict=True)
                if piece.startswith(healed)
            ]
            followed = [one for one in likely if math.exp(one.logprob - way.logprob) >= least] or likely[:1]
            for one in followed:
                self._add(grown, one)
        room = self._wanted.beams - len(self._done)
        kept = sorted(grown.values(), key=lambda way: -way.logprob)[: max(room, 0)]
        self._done += [way for way in kept if way.ended]
        self._open = [way for way in kept if not way.ended]
        self._level += 1

    def _further(self, way: Way, token: int, logprob: float, piece: bytes) -> Way:
        if token in self._eog:
            return replace(way, logprob=way.logprob + logprob, ended=True)
        raw = way.raw + piece
        return Way((*way.ids, token), raw, way.logprob + logprob, _ends(raw, self._wanted.ends))

    def _add(self, grown: dict[bytes, Way], way: Way) -> None:
        """Two that write the same are one: the likelier, with the probability of both."""
        other = grown.get(way.raw)
        if other is not None and other.ended == way.ended:
            better = max(way, other, key=lambda one: one.logprob)
            total = better.logprob + math.log1p(math.exp(min(way.logprob, other.logprob) - better.logprob))
            way = replace(better, logprob=total)
        grown[way.raw] = way


def _ends(raw: bytes, rule: Ends) -> bool:
    """Whether a text ends where the rule has it."""
    text = raw.decode("utf-8", "ignore").rstrip()
    if rule == "punctuation":
        return text.rstrip(_CLOSING)[-1:] in _PUNCTUATION if text else False
    if rule == "sentence":
        return len(text) in SentenceScanner().feed(text + " ")[-1:]
    return False
