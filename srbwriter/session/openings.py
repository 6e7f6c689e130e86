"""Likely first words of a round, and which of them no branch begins with."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

from srbwriter.engine.openings import (
    Fork,
    completion,
    fork_of,
    needs_completion,
    question,
    rest_of_word,
)
from srbwriter.engine.types import NoModel

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.engine.generation import Generation

    from .session import Session

_SECONDS = 600.0  # for one answer; a long prompt may have to be evaluated first
_NO_BRANCHES = "There are no branches yet. Write some first (ctrl+n)."
LEAST, MOST = 0.001, 12
"""The least probability of a missing word, and the most of them."""


class Word(NamedTuple):
    """A likely first word.

    ``ids`` are the tokens that write it after the prompt, ``probability`` is that of its first one before any
    sampler, and ``branches`` begin with that one.
    """

    raw: bytes
    ids: tuple[int, ...]
    probability: float
    branches: tuple[int, ...]


class Words(NamedTuple):
    """The likely first words, missing ones first, and the total probability of those that branches have."""

    covered: float
    words: tuple[Word, ...]


def find_words(session: Session) -> Future[Words]:
    """Find the likely first words of the round, and which of them no branch begins with.

    Raises NoModel without branches of a model.
    """
    with session.state_lock:
        generation, engine = session.take_up(), session.engine
    if generation is None or engine is None:
        raise NoModel(_NO_BRANCHES)
    return session.tokens.later(lambda: _find_words(engine, generation))


def open_word(session: Session, word: Word) -> int:
    """Add a branch that begins with ``word``; return its index. Raises EngineError."""
    with session.state_lock:
        generation, current = session.take_up(), session.round
        if generation is None or current is None:
            raise NoModel(_NO_BRANCHES)
        index = len(generation.branches)
        current.forced.add(index)
        generation.add_branch(1, begin=word.ids)
        return index


def _find_words(engine: Backend, generation: Generation) -> Words:
    """Return the likely first words of ``generation``. Waits for the engine; raises EngineError."""
    fork = _find_fork(engine, generation)
    missing = [one for one in fork.openings if not one.branches and one.probability >= LEAST][:MOST]
    listed = [*missing, *(one for one in fork.openings if one.branches)]
    rests = {
        one.token: engine.submit(completion(generation, fork.after, one.token))
        for one in listed
        if needs_completion(one.raw)
    }
    words: list[Word] = []
    for one in listed:
        rest, raw = (), b""
        if (written := rests.get(one.token)) is not None:
            ids = tuple(written.wait(_SECONDS).branches[0].buffer.ids)
            rest, raw = rest_of_word(ids, engine.pieces(ids))
        ids = (*fork.after, one.token, *rest)
        words.append(Word(one.raw + raw, ids, one.probability, one.branches))
    return Words(fork.covered, tuple(words))


def _find_fork(engine: Backend, generation: Generation) -> Fork:
    """Return the first place of ``generation`` with a choice; the answer is mostly in the cache."""
    after: tuple[int, ...] = ()
    while True:
        answer = engine.submit(question(generation, after)).wait(_SECONDS)
        fork = fork_of(generation, after, answer.next_logprobs, engine)
        if fork.further is None:
            return fork
        after = fork.further


def probability_words(share: float) -> str:
    """Format a probability: ``9 %``, ``0.4 %``, ``under 0.01 %``."""
    percent = 100 * share
    if percent < 0.01:
        return "under 0.01 %"
    return f"{percent:.0f} %" if percent >= 1 else f"{percent:.1g} %"
