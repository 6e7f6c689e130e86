"""Likely continuations of a text: its first tokens, and every path that is likely enough, token by token.

Exploration by threshold, as in LLooM: a token is followed where the model gives it at least a given
probability; the likeliest paths of each first token are kept, until they end or are long enough. The next
tokens of all paths are requested at once, so that they share their batches. Nothing is sampled. This module
submits nothing: the caller submits the requests of a level to a backend and hands back the results.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal, NamedTuple

from ..prose import SentenceScanner
from .backend import Backend
from .generation import Generation
from .limits import check_range
from .types import ONLY_READ, InvalidRequest, Priority, Request, Sampling, Stop

Ends = Literal["sentence", "punctuation", "never"]

TOP = 40
"""Likeliest first tokens that are reported of a fork."""
_FEWER = (20, 10, 5, 1)  # what is asked for where an engine does not tell as many
MOST_WAYS, MOST_TOKENS = 64, 128
SURE = 0.95
"""A token that is at least so probable is no choice."""
_FORCED = 4  # tokens that are gone past, to find one
_PUNCTUATION = ".,;:!?…—–。，、；：！？"
_CLOSING = "\"'”’»)"


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
    def unexplored(self) -> tuple[Opening, ...]:
        """The tokens that no branch begins with."""
        return tuple(opening for opening in self.openings if not opening.branches)

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
    """Asks what could follow the prompt of a request: nothing is evaluated where its logits are known."""
    request = _asking(generation.request, TOP)
    return _after(request, generation.prompt_ids, after) if after else request


def ask(engine: Backend, request: Request) -> Generation:
    """Submit a request for next tokens, fewer where the engine's bound is lower. Raises EngineError."""
    while True:
        try:
            return engine.submit(request)
        except InvalidRequest as error:
            fewer = with_fewer(request)
            if error.field != "next_logprobs" or fewer is None:
                raise
            request = fewer


def with_fewer(request: Request) -> Request | None:
    """The same question about fewer tokens; None where there are no fewer."""
    fewer = next((count for count in _FEWER if count < (request.next_logprobs or 0)), None)
    return None if fewer is None else replace(request, next_logprobs=fewer)


def _asking(asked: Request, best: int) -> Request:
    """Return ``asked`` without writing, with its ``best`` likeliest next tokens."""
    return Request(
        asked.prompt, stop=ONLY_READ, next_logprobs=best, priority=asked.priority, heal=asked.heal,
        add_bos=asked.add_bos, parse_special=asked.parse_special, overflow=asked.overflow,
        n_keep=asked.n_keep, context=asked.context, lora=asked.lora, label=asked.label, client=asked.client,
        cache_salt=asked.cache_salt, common=asked.common,
    )  # fmt: skip


def _after(request: Request, prompt: tuple[int, ...], ids: tuple[int, ...]) -> Request:
    """The same question about the prompt as it was evaluated, with more tokens behind it."""
    return replace(request, prompt=(*prompt, *ids), heal=False, add_bos=False)


_WORD_TOKENS = 6  # that are written at most, to complete a word
_AFTER_WORD = (" ", "\n", "\t", *'.,;:!?…—–"”“')
_IN_WORD = "'’-"


def needs_completion(raw: bytes) -> bool:
    """Return whether a token may be the beginning of a longer word."""
    text = raw.decode("utf-8", "replace")
    return bool(text) and (text[-1].isalnum() or text[-1] in _IN_WORD or text[-1] == "\ufffd")


def completion(generation: Generation, after: tuple[int, ...], token: int) -> Request:
    """Return the request that writes the likeliest rest of the word that ``token`` begins at a fork."""
    request = _after(_asking(generation.request, 1), generation.prompt_ids, (*after, token))
    return replace(
        request, n=1, next_logprobs=None, priority=Priority.FOREGROUND, sampling=Sampling(temperature=0),
        stop=Stop(max_tokens=_WORD_TOKENS, after_any=_AFTER_WORD),
    )  # fmt: skip


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
    return Fork(
        after,
        tuple(
            Opening(token, pieces[token][len(healed) :], share / whole, tuple(begun.get(token, ())))
            for token, share in known.items()
        ),
    )


@dataclass(frozen=True, slots=True)
class Exploring:
    """The bounds of an exploration.

    ``cutoff`` is the least probability of a token, and ``multiplier`` changes it with each token; a path has
    at most ``depth`` tokens, and at most ``beams`` paths are kept.
    """

    cutoff: float = 0.05
    multiplier: float = 1.0
    depth: int = 24
    beams: int = 8
    ends: Ends = "sentence"

    def check(self) -> None:
        """Raise OutOfRange for what cannot mean anything."""
        bounds: dict[str, tuple[float, float]] = {
            "cutoff": (0, 1), "multiplier": (0, 10), "depth": (1, MOST_TOKENS), "beams": (1, MOST_WAYS)
        }  # fmt: skip
        for name, (low, high) in bounds.items():
            check_range(name, getattr(self, name), low, high)


@dataclass(frozen=True, slots=True)
class Way:
    """One path: its tokens, their text after the prompt, and the natural logarithm of their probability."""

    ids: tuple[int, ...] = ()
    raw: bytes = b""
    logprob: float = 0.0
    ended: bool = False  # by itself, not for its length

    @property
    def text(self) -> str:
        return self.raw.decode("utf-8", "replace")


class Exploration:
    """Follow paths from a prompt: submit :meth:`requests` and pass the results to :meth:`hear`, repeatedly.

    Args:
        first: the prompt, and the request's other fields.
    """

    def __init__(self, first: Request, wanted: Exploring, eog: Collection[int]) -> None:
        wanted.check()
        self._first = _asking(first, max(TOP, wanted.beams))
        self._wanted, self._eog = wanted, eog
        self._prompt: tuple[int, ...] = ()
        self._open, self._done = [Way()], list[Way]()
        self._level = 0

    @property
    def tokens(self) -> int:
        """The depth of the paths so far, in tokens."""
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
        return [_after(self._first, self._prompt, way.ids) for way in self._open]

    def hear(self, generations: Sequence[Generation], engine: Backend) -> None:
        """The requests are done, in their order."""
        healed = b""
        if not self._level:
            self._prompt, healed = generations[0].prompt_ids, generations[0].healed.encode()
        least = self._wanted.cutoff * self._wanted.multiplier**self._level
        grown: dict[bytes, Way] = {}
        for way, generation in zip(self._open, generations, strict=True):
            following = generation.next_logprobs
            pieces = engine.pieces([token for token, _ in following])
            likely = [
                self._further(way, token, logprob, piece[len(healed) :])
                for (token, logprob), piece in zip(following, pieces, strict=True)
                if piece.startswith(healed)
            ]
            followed = [one for one in likely if math.exp(one.logprob - way.logprob) >= least] or likely[:1]
            for one in followed:
                self._add(grown, one)
        kept = self._likeliest(list(grown.values()))
        self._done += [way for way in kept if way.ended]
        self._open = [way for way in kept if not way.ended]
        self._level += 1

    def _likeliest(self, grown: Sequence[Way]) -> list[Way]:
        """As many as there is room for, of all beginnings alike, so that none crowds out the others."""
        every = [*self._done, *grown]
        common = _common([way.ids for way in every])
        begun = Counter(way.ids[common : common + 1] for way in self._done)
        ranked: list[tuple[int, float, Way]] = []
        for way in sorted(grown, key=lambda one: -one.logprob):
            beginning = way.ids[common : common + 1]
            ranked.append((begun[beginning], -way.logprob, way))
            begun[beginning] += 1
        ranked.sort(key=lambda one: one[:2])
        return [way for *_, way in ranked[: max(self._wanted.beams - len(self._done), 0)]]

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


def _common(paths: Sequence[tuple[int, ...]]) -> int:
    """How many tokens all of them begin with."""
    columns = zip(*paths, strict=False)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))


def _ends(raw: bytes, rule: Ends) -> bool:
    """Whether a text ends where the rule has it."""
    text = raw.decode("utf-8", "ignore").rstrip()
    if rule == "punctuation":
        return text.rstrip(_CLOSING)[-1:] in _PUNCTUATION if text else False
    if rule == "sentence":
        return len(text) in SentenceScanner().feed(text + " ")[-1:]
    return False
