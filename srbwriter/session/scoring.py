"""Tokens of a text with their characters and log-probabilities, shared by the instruments that show them.

A session has one :class:`Paths`, so that no instrument has tokens evaluated that another one has scored.
"""

from __future__ import annotations

import codecs
import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from srbwriter.engine.tree import common_prefix
from srbwriter.engine.types import ONLY_READ, Priority, Request

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.story.context import Segment

_KEPT_PATHS = 48


class TokenSpan(NamedTuple):
    """A token and its characters; a token of a part of a character has the whole character."""

    id: int
    start: int
    end: int
    inside: bool
    """Whether it begins inside a character."""
    at: int
    """The number of tokens of the prompt and the text before it."""


def tokens_with_text(ids: Sequence[int], pieces: Sequence[bytes], at: int, begin: int = 0) -> list[TokenSpan]:
    """Return tokens with their characters, from character ``begin`` of a text on."""
    decoder, found = codecs.getincrementaldecoder("utf-8")("replace"), list[TokenSpan]()
    place, broken = begin, False
    for count, (token, piece) in enumerate(zip(ids, pieces, strict=True)):
        start, inside = place, broken
        place += len(decoder.decode(piece))
        broken = bool(decoder.getstate()[0])
        found.append(TokenSpan(token, start, place + broken, inside, at + count))
    return found


def story_tokens(engine: Backend, segments: Iterable[Segment], begin: int) -> list[TokenSpan]:
    """Return the tokens of the story in a prompt; its first character is number ``begin`` of the story."""
    at, tokens = 0, list[TokenSpan]()
    for segment in segments:
        if segment.source == "story":
            pieces, length = engine.pieces(segment.tokens), len(segment.text)
            found = tokens_with_text(segment.tokens, pieces, at, begin)
            if b"".join(pieces) != segment.text.encode("utf-8", "replace"):
                # The vocabulary does not reproduce the text: its characters are spread evenly.
                places = [begin + k * length // max(len(found), 1) for k in range(len(found) + 1)]
                found = [
                    token._replace(start=start, end=end, inside=False)
                    for token, start, end in zip(found, places, places[1:], strict=False)
                ]
            tokens += found
            begin += length
        at += len(segment.tokens)
    return tokens


def scoring_request(ids: Sequence[int], first: int, priority: Priority) -> Request:
    """Return a request for the log-probabilities of ``ids`` from number ``first`` on; it writes nothing.

    The engine evaluates these tokens also where they are cached, since it keeps no log-probabilities.
    """
    return Request(
        tuple(ids), stop=ONLY_READ, prompt_logprobs=0, score_from=first, priority=priority, add_bos=False
    )


class Paths:
    """Log-probabilities of tokens by their preceding tokens, so that none is computed twice.

    Every method may be called from any thread.
    """

    def __init__(self) -> None:
        self._paths: OrderedDict[tuple[int, ...], dict[int, float]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, ids: tuple[int, ...], first: int, logprobs: Iterable[float]) -> None:
        """Store ``logprobs`` of ``ids`` from number ``first`` on; minus infinity means unknown."""
        found = [(at, value) for at, value in enumerate(logprobs, first) if value > -math.inf]
        with self._lock:
            self._paths.setdefault(ids, {}).update(found)
            self._paths.move_to_end(ids)
            while len(self._paths) > _KEPT_PATHS:
                self._paths.popitem(last=False)

    def of(self, ids: tuple[int, ...]) -> dict[int, float]:
        """Return the known log-probabilities of ``ids``, by their index."""
        found: dict[int, float] = {}
        with self._lock:
            for path, known in self._paths.items():
                same = common_prefix(path, ids, 0, len(ids))
                found.update((at, value) for at, value in known.items() if at < same)
        return found

    def clear(self) -> None:
        """Discard everything, after a change of the model."""
        with self._lock:
            self._paths.clear()
