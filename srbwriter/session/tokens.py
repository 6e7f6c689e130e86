"""Text token by token: alternatives at each position, forks there, and log-probabilities.

A :class:`TokenText` is a version of a branch, or the part of the story that the model reads, as tokens with
their characters. Alternatives at a position are requested when it is shown. The log-probability of a token is
recorded while a branch is generated, or else computed in the background, once. Nothing here waits for the
engine: a later call finds the results.
"""

from __future__ import annotations

import logging
import math
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import (
    ONLY_READ,
    EngineError,
    NoModel,
    Priority,
    Request,
    TokenRun,
)

from .instrument import Instrument
from .round import Round, Turn
from .scoring import TokenSpan, scoring_request, story_tokens, tokens_with_text

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend

    from .session import Session

log = logging.getLogger(__name__)

ALTERNATIVES = 20
"""Alternatives requested at a position."""
AHEAD = 2
"""Positions on either side of the shown one whose alternatives are prefetched."""


class Alternative(NamedTuple):
    """An alternative token at a position, and the natural logarithm of its probability."""

    id: int
    logprob: float
    shown: str


def shown(piece: bytes, name: str = "") -> str:
    """Return a token for a list: its text, its bytes if they are not whole characters, or its ``name``."""
    if not piece:
        return name or "nothing"
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return f"‹{piece.hex(' ')}›"
    return text.replace("\n", "⏎").replace("\t", "⇥").replace("\r", "␍")


@dataclass(slots=True)
class TokenText:
    """A text as tokens. ``prompt`` and ``ids`` are the evaluated and the generated tokens."""

    prompt: tuple[int, ...]
    ids: tuple[int, ...]
    tokens: list[TokenSpan]
    healed: str = ""  # the end of the prompt that the first token repeats
    index: int = -1  # of the branch; -1 is the story
    take: tuple[int, int] = (0, -1)  # the request and the revision of the branch
    asked: dict[int, Generation] = field(default_factory=dict[int, Generation])
    known: dict[int, tuple[Alternative, ...]] = field(default_factory=dict[int, tuple[Alternative, ...]])
    problem: str = ""

    @property
    def of_story(self) -> bool:
        return self.index < 0

    def place_of(self, char: int) -> int:
        """Return the position of the token with the character before ``char``, or of the first token."""
        return max((k for k, token in enumerate(self.tokens) if token.start < char), default=0)

    def path(self, place: int) -> tuple[int, ...]:
        """Return the tokens before the token at ``place``."""
        return (*self.prompt, *self.ids)[: self.tokens[place].at]


class Tokens(Instrument):
    """The token views of a session, and forks at a token."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.gather = False
        """Whether new branches report log-probabilities; otherwise they are looked up when asked for."""
        self.version = 0
        """Goes up with everything that has become known."""
        self._scoring: dict[tuple[int, ...], tuple[int, Generation]] = {}
        self._refused: set[tuple[int, ...]] = set()

    def shape(self, request: Request) -> Request:
        """Return ``request``, with log-probabilities if :attr:`gather` is set."""
        can = self._session.capabilities
        return replace(request, logprobs=0) if self.gather and can.has("logprobs") else request

    def _model(self) -> Backend:
        engine = self._session.engine
        if engine is None:
            raise NoModel("the model is still loading")
        return engine

    # ---- texts

    def branch_tokens(self, index: int) -> Future[TokenText]:
        """Return the present text of branch ``index`` as tokens. Raises EngineError if no engine has it."""
        branch = self._session.steered(index)

        def read() -> TokenText:
            generation, buffer = branch.generation, branch.buffer
            ids, prompt = tuple(buffer.ids), generation.prompt_ids
            found = tokens_with_text(ids, self._model().pieces(ids), len(prompt), -branch.overlap)
            tokens = [
                token._replace(start=max(token.start, 0), end=max(token.end, 0))
                for k, token in enumerate(found)
                if k == 0 or token.start >= 0 or token.end > 0
            ]
            healed, take = generation.healed if branch.overlap else "", (generation.number, buffer.revision)
            return TokenText(prompt, ids, tokens, healed, index, take)

        return self.later(read)

    def story_tokens(self) -> Future[TokenText]:
        """Return the part of the story that the model reads as tokens. Raises NoModel, StoryError."""
        session = self._session
        with session.state_lock:
            prompter = session.prompter
            session.keep()
            here, length = session.node, len(session.text())

        def read() -> TokenText:
            found = prompter.assemble(here, session.story.settings(here), session.stop)
            shown = sum(len(segment.text) for segment in found.segments if segment.source == "story")
            tokens = story_tokens(self._model(), found.segments, length - shown)
            return TokenText((), found.tokens, tokens)

        return self.later(read)

    # ---- alternatives

    def look(self, text: TokenText, place: int) -> tuple[Alternative, ...] | None:
        """Return the alternatives at a position, best first; None while they are not known yet.

        Requests them, and those of the neighbouring positions. ``text.problem`` says why they are not
        available.
        """
        if not 0 <= place < len(text.tokens):
            return ()
        self._ask(text, place)
        found = self._alternatives_at(text, place)
        if found is not None:
            for near in (place + k * side for k in range(1, AHEAD + 1) for side in (1, -1)):
                if 0 <= near < len(text.tokens):
                    self._ask(text, near)
        return found

    def _ask(self, text: TokenText, place: int) -> None:
        if place in text.asked or text.problem:
            return
        path = text.path(place)
        heals = text.healed if place == 0 else ""
        request = Request(
            (TokenRun("", path), TokenRun(heals)) if heals else path, stop=ONLY_READ,
            next_logprobs=ALTERNATIVES, next_ids=(text.tokens[place].id,), priority=Priority.NORMAL,
            heal=bool(heals), add_bos=False,
        )  # fmt: skip
        try:
            text.asked[place] = self._model().submit(request)
        except EngineError as error:
            text.problem = str(error)

    def _alternatives_at(self, text: TokenText, place: int) -> tuple[Alternative, ...] | None:
        """Return the result of a request."""
        generation = text.asked.get(place)
        if generation is None or text.problem:
            return ()
        if generation.done and generation.error is not None:
            text.problem = str(generation.error)
            return ()
        if generation.done and place not in text.known:
            engine, found, logprobs = self._model(), list[Alternative](), generation.next_logprobs
            pieces = engine.pieces([token for token, _ in logprobs])
            for (token, logprob), piece in zip(logprobs, pieces, strict=True):
                name = "" if piece else engine.token_bytes(token).decode("utf-8", "replace")
                found.append(Alternative(token, logprob, shown(piece, name)))
            text.known[place] = tuple(found)
        return text.known.get(place)

    # ---- forks and bans at a token

    def fork(self, text: TokenText, place: int, token: int) -> int:
        """Add a branch that begins like ``text`` up to ``place`` and continues with ``token``.

        Return its index.

        In the story, a new round begins there, and the text behind it becomes another branch; then it is -1.
        """
        if text.of_story:
            self._turn_story(text, place, token)
            return -1
        with self._session.state_lock:
            branch = self._session.steered(text.index)
            generation = branch.generation
            begin = (*text.path(place)[len(text.prompt) :], token)
            sampling = replace(branch.sampling, seed=None)
            index = len(generation.branches)
            generation.add_branch(1, sampling, branch.stop_rule, begin=begin)
            return index

    def _turn_story(self, text: TokenText, place: int, token: int) -> None:
        session = self._session
        session.may_write()
        start = place
        while text.tokens[start].inside:  # a character belongs to one node
            start -= 1
        prompt = text.path(start)
        begin = (*text.path(place)[len(prompt) :], token)
        with session.state_lock:
            session.leave_round(lambda: session.cut_at(text.tokens[start].start))
            current = Round(session.story, session.story.current, session.n)
            session.begin_round(current, turn=Turn(prompt, begin, ()))

    # ---- log-probabilities of a text

    def scores(self, ids: tuple[int, ...], first: int) -> dict[int, float]:
        """Return the known log-probabilities of a path's tokens from ``first`` on, by number.

        The others are looked up while the engine is idle.
        """
        self.collect()
        known = self._session.scored.of(ids)
        missing = next((at for at in range(max(first, 1), len(ids)) if at not in known), None)
        if missing is not None and ids not in self._scoring and ids not in self._refused:
            self._look_up(ids, missing)
        return known

    def branch_logprobs(self, branch: Branch) -> list[float | None]:
        """Return the log-probabilities of a branch's tokens; None for those not known (yet)."""
        buffer, generation = branch.buffer, branch.generation
        ids = tuple(buffer.ids)
        known: list[float | None] = []
        if generation.request.logprobs is not None:
            known = [one.logprob if one.logprob > -math.inf else None for one in buffer.logprobs[: len(ids)]]
        known += [None] * (len(ids) - len(known))
        if branch.live or not generation.prompt_ids:
            return known
        path, first = (*generation.prompt_ids, *ids), len(generation.prompt_ids)
        if any(value is not None for value in known):
            self._session.scored.put(path, first, (-math.inf if value is None else value for value in known))
        if None in known:
            found = self.scores(path, first)
            known = [found.get(at) for at in range(first, len(path))]
        return known

    def _look_up(self, ids: tuple[int, ...], first: int) -> None:
        request = scoring_request(ids, first, Priority.BACKGROUND)
        try:
            self._scoring[ids] = first, self._model().submit(request)
        except EngineError as error:
            self._refused.add(ids)
            log.info("not looked up: %s", error)

    def collect(self) -> None:
        """Collect the results of look-ups since the last call; a change increases :attr:`version`."""
        for ids, (first, lookup) in list(self._scoring.items()):
            if lookup.done:
                del self._scoring[ids]
                if lookup.error is None:
                    self._session.scored.put(ids, first, (one.logprob for one in lookup.prompt_logprobs))
                    self.version += 1
                else:
                    self._refused.add(ids)

    def model_changed(self) -> None:
        for _, lookup in self._scoring.values():
            lookup.cancel()
        self._scoring.clear()
        self._refused.clear()
        self.version += 1
