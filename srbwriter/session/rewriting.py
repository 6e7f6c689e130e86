"""Variants of a passage in the middle of the story, written between the text before it and the text after it.

A model that was trained to fill gaps reads both sides. Any other one, and one whose story is framed by a
chat template, continues the text before; so does one that finds the present passage less likely between
both sides than after the first alone: not every model that has tokens for gaps can use them. When all
variants have ended, each gets its *fit*: the mean
log-probability of the first tokens of the text after the passage, given the variant. A picked variant
replaces the passage as one action, and keeps its tokens. Imports no screen and no HTTP.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from srbwriter.engine.infill import infill_ids
from srbwriter.engine.types import (
    NoModel,
    Priority,
    Prompt,
    Request,
    Sampling,
    Stop,
)
from srbwriter.models.suited import suited_to
from srbwriter.prose import sentence_ends
from srbwriter.story import NodeId, Refused, Story
from srbwriter.story.model import Span
from srbwriter.story.spans import fit as ids_fit

from .instrument import Desk, Instrument
from .sampling import sample_branches
from .scoring import scoring_request

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.engine.generation import Branch, Generation

MOST = 9
"""Variants at once: a digit picks each of them."""
MOST_CHARS = 4000
"""Characters of a passage."""
FIT_TOKENS = 64
"""Tokens of the text after a passage by which its variants are ranked."""
WISH_CHARS = 400
"""Characters of the text after a passage that the model reads beside a wish."""
PRESENT = -1
"""The present passage, among the fits of its variants."""

_AFTER_CHARS = 16_000  # of the text after the passage that a model that fills gaps may read
_FIT_CHARS = 12 * FIT_TOKENS  # more than these tokens have in any prose
_BEFORE_CHARS = 240  # kept to find the passage again


class Passage(NamedTuple):
    """Characters ``start`` to ``end`` of the story, with the text around them.

    A space before it is part of it, as it is of most models' tokens; space after it is not.
    """

    start: int
    end: int
    text: str
    before: str
    after: str

    def find(self, text: str) -> int | None:
        """Return where the passage starts in ``text``, the story now; None if it is no longer found.

        It may have moved if the text before it has changed; then it must occur once.
        """
        if text.startswith(self.before + self.text, self.start - len(self.before)):
            return self.start
        found = text.find(self.text)
        return found if found >= 0 and text.find(self.text, found + 1) < 0 else None


def passage_at(text: str, start: int, end: int) -> Passage:
    """Return the selected passage of ``text``; if ``start`` is ``end``, the sentence there.

    Raises ValueError if it is empty or too long.
    """
    if start == end:
        start, end = _sentence_at(text, start)
    chosen = text[start:end]
    start, end = end - len(chosen.lstrip()), start + len(chosen.rstrip())
    if start >= end:
        raise ValueError("There are no words here. Select a passage, or put the cursor into a sentence.")
    if end - start > MOST_CHARS:
        raise ValueError(f"The passage has {end - start} characters. Select at most {MOST_CHARS}.")
    if text[start - 1 : start] == " ":
        start -= 1
    before, after = text[max(0, start - _BEFORE_CHARS) : start], text[end : end + _AFTER_CHARS]
    return Passage(start, end, text[start:end], before, after)


def _sentence_at(text: str, at: int) -> tuple[int, int]:
    """Return the sentence at a place; after the last one of a paragraph, that one."""
    begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    paragraph = text[begin : end if end >= 0 else len(text)].rstrip()
    ends = sorted({0, *sentence_ends(paragraph), len(paragraph)})
    last = min(max(1, bisect_left(ends, at - begin)), len(ends) - 1)
    return begin + ends[last - 1], begin + ends[last]


# ---- what is asked of the engine


def gap_prompt(engine: Backend, before: Prompt, after: str) -> list[int] | None:
    """Return the prompt for a text between two others; None if the model cannot fill gaps.

    The request for it has ``add_bos``, and ``before`` no token for that.
    """
    return infill_ids(engine, before, after) if engine.fim is not None and after.strip() else None


def gap_requests(
    engine: Backend, before: Sequence[int], gap: Sequence[int], passage: str, priority: Priority
) -> list[Request]:
    """Return requests for :func:`fills_gap`, which score ``passage`` after ``gap`` and after ``before``."""
    ids = engine.tokenize_continuation(passage)
    if gap[:1] != [engine.bos] and before[:1] == (engine.bos,):
        gap = [*before[:1], *gap]
    return [scoring_request((*head, *ids), len(head), priority) for head in (gap, before)]


def fills_gap(scored: Sequence[Generation]) -> bool:
    """Whether the passage is likelier between both texts than after the first one."""
    between, after = map(fit_of, scored)
    return between is not None and after is not None and between > after


def variants_request(
    engine: Backend, prompt: Prompt, passage: str, n: int, sampling: Sampling | tuple[Sampling, ...]
) -> Request:
    """Return the request for ``n`` variants of ``passage`` after ``prompt``.

    They are about as long as the passage, and end with a sentence if it does.
    """
    length, whole = max(4, len(engine.tokenize(passage))), passage.rstrip()
    stop = Stop(max_tokens=length)
    if (sentence_ends(whole) or [0])[-1] == len(whole):
        stop = Stop(max_tokens=2 * length + 8, min_tokens=2 * length // 3, boundary="sentence")
    return Request(prompt, n=n, sampling=sampling, stop=stop, priority=Priority.NORMAL)


class Rewrite(NamedTuple):
    """The text of a variant without space at its end, and its tokens.

    ``ids`` spell ``lead``, which the text before the variant ends with already, and the text but for its last
    characters, ``tail``.
    """

    text: str
    ids: tuple[int, ...]
    tail: str = ""
    lead: str = ""

    @classmethod
    def of(cls, branch: Branch, chars: int | None = None) -> Rewrite:
        """Return the text of a branch now, or its first ``chars`` characters."""
        buffer = branch.buffer
        text = "".join(buffer.pieces)[:chars].rstrip()
        count = bisect_right(buffer.ends, len(text))
        covered = buffer.ends[count - 1] if count else 0
        lead = branch.generation.healed if branch.overlap else ""
        return cls(text, tuple(buffer.ids[:count]), text[covered:], lead)

    def tokens(self, engine: Backend) -> tuple[int, ...]:
        """Return tokens for all of the text."""
        return (*self.ids, *(engine.tokenize_continuation(self.tail) if self.tail else ()))

    def spans(self, vocab: str) -> tuple[Span, ...]:
        """Return the text as a story keeps it; ``vocab`` is that of the ids."""
        if not ids_fit(self.ids):
            return (Span(self.text, "model"),)
        spelt = self.text.removesuffix(self.tail)
        known = Span(spelt, "model", self.ids, vocab, (), self.lead)
        return (known, Span(self.tail, "model")) if self.tail else (known,)


def fit_requests(
    engine: Backend, generation: Generation, before: Sequence[int], passage: str, after: str
) -> dict[int, Request]:
    """Return a request for the fit of each variant and of the ``passage`` (:data:`PRESENT`), by its number.

    They score the beginning of ``after`` and write nothing. ``before`` are tokens of the text before the
    passage; if there are none, the prompt of the variants is that text.
    """
    healed: list[int] = []
    if not before:
        before, healed = generation.prompt_ids, engine.tokenize_continuation(generation.healed)
    texts = {b.index: Rewrite.of(b).tokens(engine) for b in generation.branches if b.text.strip()}
    texts[PRESENT] = (*healed, *engine.tokenize_continuation(passage))
    following = engine.tokenize_continuation(after[:_FIT_CHARS])[:FIT_TOKENS]
    priority = generation.request.priority
    heads = {index: (*before, *ids) for index, ids in texts.items()}
    return {i: scoring_request((*head, *following), len(head), priority) for i, head in heads.items()}


def why_unranked(engine: Backend, after: str) -> str:
    """Return why variants before ``after`` can have no fit; empty if they can."""
    if not after.strip():
        return "no text follows the passage"
    return engine.capabilities.reason_for("prompt_logprobs")


def fit_of(scored: Generation) -> float | None:
    """Return the mean log-probability of the scored text; None if it is not known."""
    known = [one.logprob for one in scored.prompt_logprobs if one.logprob > -math.inf]
    return sum(known) / len(known) if known and scored.error is None else None


@dataclass(slots=True)
class Rewrites:
    """The variants of one attempt."""

    generation: Generation
    before: tuple[int, ...]
    """Tokens of the text before the passage, for models that fill gaps; else it is the prompt."""
    after: str
    unranked: str = ""
    """Why the variants have no fit; empty if they have, or will have."""
    fits: dict[int, float] = field(default_factory=dict[int, float])
    """The mean log-probability of the text after it, by the number of the variant (:data:`PRESENT`)."""
    scoring: dict[int, Generation] = field(default_factory=dict[int, "Generation"])

    @property
    def best(self) -> int | None:
        """The number of the variant that fits best; None if none has a fit."""
        return max((i for i in self.fits if i != PRESENT), key=lambda i: self.fits[i], default=None)

    @property
    def done(self) -> bool:
        """Whether all variants have ended, and are ranked as far as they can be."""
        ranked = bool(self.unranked) or len(self.fits) == len(self.scoring) > 0
        return self.generation.done and ranked

    def cancel(self) -> None:
        for one in (self.generation, *self.scoring.values()):
            one.cancel()

    def score(self, engine: Backend, passage: str) -> None:
        """Submit the requests for the fits; they arrive on the engine's thread. Raises EngineError."""
        asked = fit_requests(engine, self.generation, self.before, passage, self.after)
        self.scoring = {index: engine.submit(request) for index, request in asked.items()}
        for index, scored in self.scoring.items():
            scored.add_listener(partial(self._take_fit, index))
            self._take_fit(index)  # it may have ended already

    def _take_fit(self, index: int) -> None:
        if (scored := self.scoring[index]).done and index not in self.fits:
            found = fit_of(scored)
            if found is None:
                self.unranked = str(scored.error or "the engine gave no likelihood")
            else:
                self.fits[index] = found


class Rewriting(Instrument):
    """Writes variants of a passage of the story, and puts one in its place."""

    name: ClassVar[str] = "rewriting"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.passage: Passage | None = None
        self.variants: Rewrites | None = None
        self.problem: Exception | None = None
        """Why there are no variants, or no fits."""
        self._attempts = 0
        self._checks: list[Generation] = []

    def model_changed(self) -> None:
        self.stop()

    def close(self) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the variants; those that are written stay."""
        if self.variants is not None:
            self.variants.cancel()
        for check in self._checks:
            check.cancel()

    def leave(self) -> None:
        """Stop the variants and forget them; the story stays as it is."""
        self.stop()
        self.passage = self.variants = None
        self._attempts += 1

    def write(self, passage: Passage, wish: str = "") -> None:
        """Request variants of ``passage``, which are :attr:`variants` soon, or :attr:`problem` says why not.

        With a ``wish`` they follow it: the model reads it and the passage near the end of the text before,
        and fills no gap. Variants of before stop. Raises ReadOnlyStory or NoModel.
        """
        self._desk.may_write()
        self.stop()
        self._attempts += 1
        self.passage, self.variants, self.problem, self._checks = passage, None, None, []
        self._later(self._attempts, partial(self._prepare, passage, self._attempts, wish))

    def _later(self, attempt: int, act: Callable[[], None]) -> None:
        """Run ``act`` on the instrument's thread, unless another attempt has begun by then."""

        def guarded() -> None:
            if attempt != self._attempts:
                return
            try:
                act()
            except Exception as error:  # shown by the interface
                self.problem = error

        self.later(guarded)

    def _after(self, attempt: int, ended: Sequence[Generation], act: Callable[[], None]) -> None:
        """Run ``act`` once, on the instrument's thread, when all of ``ended`` are."""
        waits = [act]

        def on_news() -> None:
            if all(generation.done for generation in ended):
                self._later(attempt, lambda: waits.pop()() if waits else None)

        for generation in ended:
            generation.add_listener(on_news)
        on_news()  # they may have ended already

    def _prepare(self, passage: Passage, attempt: int, wish: str) -> None:
        """Assemble the prompt, and find out whether the model fills the gap."""
        desk = self._desk
        with desk.state_lock:
            desk.keep()
            story, engine, prompter = desk.story, desk.engine, desk.prompter
            start = passage.find(desk.text())
        if engine is None:
            raise NoModel("the model is still loading")
        if start is None:
            raise Refused(_GONE)
        node, at = _node_at(story, start)
        settings = story.settings(node)
        room = Stop(max_tokens=2 * len(engine.tokenize(passage.text)) + FIT_TOKENS)
        now, following = passage.text.strip(), passage.after[:WISH_CHARS]
        assembly = prompter.assemble(node, settings, room, at, wish=wish, passage=now, after=following)
        n, base, before, gap = max(1, min(desk.n, MOST)), desk.sampling, assembly.tokens, None
        if base.seed is not None:
            base = replace(base, seed=base.seed + attempt * MOST)
        samplings = sample_branches(base, settings.sampling, n)
        plain = variants_request(engine, prompter.prompt(assembly), passage.text, n, samplings)
        more = desk.variety.request_fields(samplings, engine.capabilities)
        plain = replace(plain, heal=True, add_bos=False, **more)
        fills = suited_to(engine.info.metadata).fills_gaps
        if fills and not wish and prompter.frame.apply(settings).template is None and before:
            gap = gap_prompt(engine, before[1:] if before[0] == engine.bos else before, passage.after)
        if gap is None or not engine.capabilities.has("prompt_logprobs"):
            self._begin(engine, passage, attempt, plain, before, gap)
            return
        asked = gap_requests(engine, before, gap, passage.text, Priority.NORMAL)
        checks = self._checks = [engine.submit(request) for request in asked]

        def begin() -> None:
            self._begin(engine, passage, attempt, plain, before, gap if fills_gap(checks) else None)

        self._after(attempt, checks, begin)

    def _begin(
        self, engine: Backend, passage: Passage, attempt: int, plain: Request, before: tuple[int, ...],
        gap: list[int] | None,
    ) -> None:  # fmt: skip
        """Submit the request ``plain``, with the prompt ``gap`` if there is one, and rank what is written."""
        request = plain if gap is None else replace(plain, prompt=gap, heal=False, add_bos=True)
        generation, why = engine.submit(request), why_unranked(engine, passage.after)
        found = Rewrites(generation, () if gap is None else before, passage.after, why)
        if attempt != self._attempts:
            found.cancel()
            return
        self.variants = found
        if not why:
            self._after(attempt, [generation], lambda: found.score(engine, passage.text))

    def apply(self, index: int, chars: int | None = None) -> None:
        """Put variant ``index``, or its first ``chars`` characters, in the place of the passage: one action.

        Raises ValueError without words, and Refused if the passage has changed in the story.
        """
        desk, passage, found = self._desk, self.passage, self.variants
        if passage is None or found is None or not 0 <= index < len(found.generation.branches):
            raise ValueError(f"There is no variant {index + 1}.")
        variant = Rewrite.of(found.generation.branches[index], chars)
        if not variant.text.strip() or desk.engine is None:
            raise ValueError(f"Variant {index + 1} has no words yet.")
        spans, story = variant.spans(desk.engine.info.vocab), desk.story

        def put() -> None:
            start = passage.find(story.text(story.current))
            if start is None:
                raise Refused(_GONE)
            story.rewrite(start, start + len(passage.text), spans)

        desk.together(put)
        self.leave()


_GONE = "The passage has changed in the story. Go back and select it again."


def _node_at(story: Story, place: int) -> tuple[NodeId, int]:
    """Return the node with character ``place`` - 1 of the current text, and the offset after it."""
    path = story.path(story.current)
    ends = list(accumulate(len(node.text) for node in story.nodes(path)))
    index = bisect_left(ends, place)
    return path[index], place - (ends[index - 1] if index else 0)
