"""Text in the middle of the story: new text for a place between two texts, or other words for a passage.

A model that was trained to fill gaps reads both sides. Any other one, and one whose story is framed by a
chat template, continues the text before. When all variants have ended they are ranked: each gets its *fit*,
the mean log-probability of the first tokens of the text that follows, given the variant. A variant that is
picked takes the place of the passage as one action, and keeps its tokens; so does the text after it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from srbwriter.engine.infill import infill_ids
from srbwriter.engine.types import NoModel, Priority, Request, Stop
from srbwriter.models.suited import fills_gaps
from srbwriter.prose import sentence_ends
from srbwriter.story import Refused
from srbwriter.story.model import Span
from srbwriter.story.spans import fit as ids_fit

from .instrument import Instrument
from .sampling import sample_branches
from .scoring import scoring_request
from .typing import node_at

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.engine.generation import Branch, Generation

    from .session import Session

MOST = 9
"""Variants at once: a digit picks each of them."""
MOST_CHARS = 4000
"""Characters of a passage."""
FIT_TOKENS = 64
"""Tokens of the text after a passage by which its variants are ranked."""
WISH_CHARS = 400
"""Characters of the text after a passage that the model reads beside a wish."""
WISHES = ("shorter", "more concrete", "in another tense", "from her view")
"""Wishes to choose from, beside one that the writer types."""

_AFTER_CHARS = 16_000  # of the text after the passage that a model that fills gaps may read
_FIT_CHARS = 12 * FIT_TOKENS  # more than these tokens have in any prose
_AROUND_CHARS = 120  # kept on both sides to find the passage again
_GONE = "The passage has changed in the story. Go back and select it again."


class Passage(NamedTuple):
    """Characters ``start`` to ``end`` of the story, with the text around them; a place if ``text`` is empty.

    A space before it is part of it, as it is of most models' tokens; space after it is not.
    """

    start: int
    end: int
    text: str
    before: str
    after: str

    @classmethod
    def between(cls, text: str, start: int, end: int) -> Passage:
        """Return characters ``start`` to ``end`` of ``text``."""
        around = text[max(0, start - _AROUND_CHARS) : start], text[end : end + _AFTER_CHARS]
        return cls(start, end, text[start:end], *around)

    def find(self, text: str) -> int | None:
        """Return where the passage starts in ``text``, the story now; None if it is no longer found.

        It may have moved if the text before it has changed; then it must occur once.
        """
        after = "" if self.text else self.after[:_AROUND_CHARS]
        if text.startswith(self.before + self.text + after, self.start - len(self.before)):
            return self.start
        lead = len(self.before) if not self.text else 0
        whole = self.text or self.before + after
        found = text.find(whole)
        return found + lead if found >= 0 and text.find(whole, found + 1) < 0 else None

    @property
    def lead(self) -> str:
        """The space that its variants begin with."""
        if self.text:
            return self.text[: len(self.text) - len(self.text.lstrip())]
        return "" if not self.before or self.before[-1].isspace() else " "

    @property
    def joint(self) -> str:
        """What parts its variants from the text after it."""
        if self.text or not self.after or self.after[0].isspace():
            return ""
        own_line = self.before[len(self.before.rstrip("\n")) :] or ("\n" if not self.before else "")
        return own_line or (" " if self.after[0].isalnum() or self.after[0] in "“\"'‘«(" else "")

    @property
    def has_breaks(self) -> bool:
        """Whether its variants may have line breaks."""
        return "\n" in self.text if self.text else self.lead == ""


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
    return Passage.between(text, start - (text[start - 1 : start] == " "), end)


def place_at(text: str, at: int) -> Passage:
    """Return the place for new text at character ``at``; inside a word, the one behind it."""
    while 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum():
        at += 1
    return Passage.between(text, *(2 * (at - (text[at - 1 : at] == " "),)))


def _sentence_at(text: str, at: int) -> tuple[int, int]:
    """Return the sentence at a place; after the last one of a paragraph, that one."""
    begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    paragraph = text[begin : end if end >= 0 else len(text)].rstrip()
    ends = sorted({0, *sentence_ends(paragraph), len(paragraph)})
    last = min(max(1, bisect_left(ends, at - begin)), len(ends) - 1)
    return begin + ends[last - 1], begin + ends[last]


class Variant(NamedTuple):
    """The text of a branch in the place of a passage: ``head``, ``spelt`` and ``tail``.

    ``ids`` spell ``healed``, which the text before it ends with already, and ``spelt``.
    """

    head: str
    spelt: str
    tail: str
    ids: tuple[int, ...]
    healed: str

    @classmethod
    def of(cls, branch: Branch, passage: Passage, chars: int | None = None) -> Variant:
        """Return the text of a branch now, or its first ``chars`` characters, without breaks at its edges."""
        ends, text = branch.buffer.ends, "".join(branch.buffer.pieces)[:chars]
        begin = len(text) - len(text.lstrip())
        end = len(text.rstrip())
        if not passage.has_breaks and (cut := text.find("\n", begin, end)) >= 0:
            end = begin + len(text[begin:cut].rstrip())
        if end <= begin:
            return cls("", "", "", (), "")
        lead = passage.lead if passage.text or begin else ""
        if lead == text[:begin]:
            lead, begin, first, known = "", 0, 0, 0
        else:  # its tokens from the first one on that begins behind its own space
            first = bisect_left(ends, begin) + 1 if begin else 0
            known = ends[first - 1] if first else 0
        last = bisect_right(ends, end)
        spelt = text[known : ends[last - 1]] if last > first else ""
        known = known if spelt else end
        healed = branch.generation.healed if branch.overlap and not first and not lead else ""
        ids = tuple(branch.buffer.ids[first:last]) if spelt else ()
        return cls(lead + text[begin:known], spelt, text[known + len(spelt) : end], ids, healed)

    @property
    def text(self) -> str:
        return self.head + self.spelt + self.tail

    def spans(self, vocab: str, joint: str) -> tuple[Span, ...]:
        """Return the text as a story keeps it; ``vocab`` is that of the ids."""
        known = Span(self.spelt, "model", self.ids, vocab, (), self.healed)
        if not ids_fit(self.ids):
            known = Span(self.spelt, "model")
        parts = (Span(self.head, "model"), known, Span(self.tail + joint, "model"))
        return tuple(span for span in parts if span.text)


@dataclass(slots=True)
class Variants:
    """The variants of one attempt."""

    generation: Generation
    unranked: str = ""
    """Why they have no fit; empty if they have, or will have."""
    fits: dict[int, float] = field(default_factory=dict[int, float])
    """The mean log-probability of the text after the passage, by the number of the variant."""
    done: bool = False
    """Whether all have ended, and are ranked as far as they can be."""

    @property
    def best(self) -> int | None:
        """The number of the variant that fits best; None if none has a fit."""
        return max(self.fits, key=lambda i: self.fits[i], default=None)


class Rewriting(Instrument):
    """Writes variants of a passage of the story, or for a place, and puts one there."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.passage: Passage | None = None
        self.variants: Variants | None = None
        self.problem: Exception | None = None
        """Why there are no variants, or no fits."""
        self._attempts = 0
        self._running: list[Generation] = []

    def model_changed(self) -> None:
        self.stop()

    def close(self) -> None:
        self.leave()

    def stop(self) -> None:
        """Stop the variants; those that are written stay."""
        for generation in self._running:
            generation.cancel()

    def leave(self) -> None:
        """Stop the variants and forget them; the story stays as it is."""
        self._attempts += 1
        self.stop()
        self.passage = self.variants = None

    def write(self, passage: Passage, wish: str = "") -> None:
        """Request variants for ``passage``, which are :attr:`variants` soon, or :attr:`problem` says why not.

        With a ``wish`` they follow it: the model reads it and the passage near the end of the text before,
        and fills no gap. Variants of before stop. Raises StoryError or NoModel.
        """
        self._session.may_write()
        self.leave()
        self.passage, self.problem = passage, None
        attempt = self._attempts

        def act() -> None:
            try:
                if attempt == self._attempts:
                    self._write(passage, wish, attempt)
            except Exception as error:  # shown by the interface
                if attempt == self._attempts:
                    self.problem = error

        self.later(act)

    def _write(self, passage: Passage, wish: str, attempt: int) -> None:
        """Write the variants, wait until they have ended, and rank them."""
        session = self._session
        with session.state_lock:
            session.keep()
            story, engine, prompter = session.story, session.engine, session.prompter
            start = passage.find(session.text())
            if engine is None:
                raise NoModel("the model is still loading")
            if start is None:
                raise Refused(_GONE)
            node, at = node_at(story, start)
            settings = story.settings(node)
            stop = _stop_of(engine, passage, session.stop_of_answer(session.stop))
            room = Stop(max_tokens=(stop.max_tokens or 0) + FIT_TOKENS)
            now, following = passage.text.strip(), passage.after[:WISH_CHARS]
            assembly = prompter.assemble(node, settings, room, at, wish, now, following)
            framed = prompter.frame.apply(settings).template is not None
        base, before, n = session.sampling, assembly.tokens, max(1, min(session.n, MOST))
        if base.seed is not None:
            base = replace(base, seed=base.seed + attempt * MOST)
        samplings = sample_branches(base, settings.sampling, n)
        request = Request(
            prompter.prompt(assembly), n=n, sampling=samplings, stop=stop, priority=Priority.NORMAL,
            heal=True, add_bos=False, **session.variety.request_fields(samplings, engine.capabilities),
        )  # fmt: skip
        gap = fills_gaps(engine.info.metadata) and engine.fim is not None and passage.after.strip()
        if gap and before and not wish and not framed:
            ids = infill_ids(engine, before[1:] if before[0] == engine.bos else before, passage.after)
            request = replace(request, prompt=ids, heal=False, add_bos=True)
        else:
            gap = ""
        generation = engine.submit(request)
        self._running = [generation]
        why = "" if passage.after.strip() else "no text follows"
        found = Variants(generation, why or engine.capabilities.reason_for("prompt_logprobs"))
        if attempt == self._attempts:
            self.variants = found
            generation.wait()
        if attempt == self._attempts and not found.unranked:
            self._rank(engine, found, passage, before if gap else generation.prompt_ids, bool(gap))
        found.done = True
        if attempt != self._attempts:
            self.stop()

    def _rank(
        self, engine: Backend, found: Variants, passage: Passage, before: tuple[int, ...], gap: bool
    ) -> None:
        """Score the beginning of the text after each variant."""
        following = engine.tokenize_continuation((passage.joint + passage.after)[:_FIT_CHARS])[:FIT_TOKENS]
        scored: dict[int, Generation] = {}
        for branch in found.generation.branches:
            variant = Variant.of(branch, passage)
            if variant.text.strip():
                healed = "" if gap or variant.healed else found.generation.healed
                head = engine.tokenize_continuation(healed + variant.head) if healed + variant.head else []
                tail = engine.tokenize_continuation(variant.tail) if variant.tail else []
                path = (*before, *head, *variant.ids, *tail)
                request = scoring_request((*path, *following), len(path), Priority.NORMAL)
                scored[branch.index] = engine.submit(request)
        self._running += scored.values()
        for index, generation in scored.items():
            generation.wait()
            known = [one.logprob for one in generation.prompt_logprobs if one.logprob > -math.inf]
            if known:
                found.fits[index] = sum(known) / len(known)

    def shown(self, index: int) -> str:
        """Return variant ``index`` as the story would have it now."""
        if self.passage is None or self.variants is None:
            return ""
        return Variant.of(self.variants.generation.branches[index], self.passage).text

    def apply(self, index: int, chars: int | None = None) -> None:
        """Put variant ``index``, or its branch's first ``chars`` characters, in the place of the passage.

        One action. Raises ValueError without words, and Refused if the passage has changed in the story.
        """
        session, passage, found = self._session, self.passage, self.variants
        if passage is None or found is None or not 0 <= index < len(found.generation.branches):
            raise ValueError(f"There is no variant {index + 1}.")
        variant = Variant.of(found.generation.branches[index], passage, chars)
        if not variant.text.strip() or session.engine is None:
            raise ValueError(f"Variant {index + 1} has no words yet.")
        spans, story = variant.spans(session.engine.info.vocab, passage.joint), session.story

        def put() -> None:
            start = passage.find(session.text())
            if start is None:
                raise Refused(_GONE)
            story.rewrite(start, start + len(passage.text), spans)

        session.together(put)
        self.leave()


def _stop_of(engine: Backend, passage: Passage, usual: Stop) -> Stop:
    """Return the rule for variants: about as long as the passage, and with a sentence's end if it has one.

    For a place they are as long as branches are, in whole sentences.
    """
    if not passage.text:
        most = usual.max_tokens or 64
        return replace(usual, max_tokens=most + 32, min_tokens=most // 2, boundary="sentence")
    length, whole = max(4, len(engine.tokenize(passage.text))), passage.text.rstrip()
    if (sentence_ends(whole) or [0])[-1] == len(whole):
        return Stop(max_tokens=2 * length + 8, min_tokens=2 * length // 3, boundary="sentence")
    return Stop(max_tokens=length)
