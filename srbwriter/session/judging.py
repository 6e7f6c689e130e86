"""Scores of ended branches: the probability of a yes to each question of a rubric.

A question is appended to the text of a branch in plain words. No answer is sampled: the probability of *Yes*
among *Yes* and *No* is read from the logits. A question therefore costs only its own few tokens for each
branch; the text is in the cache. No chat template is used: a base model has none, and for a chat model, which
reads the story as the middle of its answer, another turn would cost rows and give no better answer than words
in brackets. Imports no screen and no HTTP.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from srbwriter.engine.tree import common_prefix
from srbwriter.engine.types import (
    ONLY_READ,
    ContextOverflow,
    EngineError,
    NotSupported,
    Priority,
    Request,
    TokenRun,
)

from .instrument import Desk, Instrument, sheet_lines
from .ordering import BY_SCORE, NEEDS, ORDERS

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.engine.generation import Branch, Buffer, Generation

    from .rounds import Round

RUBRIC = """\
# One question a line, to be answered with yes or no. {note} is the author's note;
# where there is none, questions with it are not asked.
Does this passage do what the author's note asks for ({note})?
Does this passage keep to the tone of what stands before it?
Does this passage agree with what has happened before?
"""
"""The questions of a story without its own."""

KEPT = "rubric"
"""The name of the story value with its questions."""

MOST_QUESTIONS, MOST_CHARS = 16, 500
_ASKED = "\n\n[Editor's question about the last passage: {question} Answer Yes or No.]\n[Answer:"
_WORDS = ((" Yes", " No"), (" yes", " no"))
_LIKELIEST = 20  # number of alternatives, for remote engines that report only the likeliest ones


def questions(rubric: str, note: str = "") -> tuple[str, ...]:
    """Return the questions of an edited list, with the author's note filled in.

    Raises ValueError for too many or too long ones.
    """
    note = " ".join(note.split())
    lines = [line for line in sheet_lines(rubric) if note or "{note}" not in line]
    found = tuple(dict.fromkeys(line.replace("{note}", note) for line in lines))
    if len(found) > MOST_QUESTIONS or any(len(line) > MOST_CHARS + len(note) for line in found):
        raise ValueError(f"At most {MOST_QUESTIONS} questions of {MOST_CHARS} characters each are possible.")
    return found


@dataclass(frozen=True, slots=True)
class Answers:
    """A question's tokens, and the tokens that count as yes and as no after them."""

    suffix: tuple[int, ...]
    yes: frozenset[int]
    no: frozenset[int]

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(sorted(self.yes | self.no))

    def read(self, next_logprobs: Sequence[tuple[int, float]]) -> float | None:
        """Return the share of yes; None if neither answer is among the probabilities."""
        odds = {token: math.exp(logprob) for token, logprob in next_logprobs}
        yes, no = (sum(odds.get(token, 0.0) for token in tokens) for tokens in (self.yes, self.no))
        return yes / (yes + no) if yes + no > 0 else None


def answers(engine: Backend, question: str) -> Answers:
    """Return the prompt and answers of ``question``.

    Raises NotSupported where yes and no have no tokens of their own.

    Both are counted where they are one token in the same spelling; where none is, by their first tokens.
    """
    suffix = _ASKED.format(question=question)
    pairs = [[tuple(engine.tokenize_continuation(suffix + word)) for word in words] for words in _WORDS]
    first, second = pairs[0]
    begin = common_prefix(first, second, 0, len(second))
    if begin == min(map(len, pairs[0])):
        raise NotSupported("This model has no words for yes and no that could be told apart.")
    single = [pair for pair in pairs if all(ids[:-1] == pairs[0][0][:begin] for ids in pair)] or pairs[:1]
    yes, no = (frozenset(pair[k][begin] for pair in single) for k in (0, 1))
    return Answers(pairs[0][0][:begin], yes, no)


def mean(shares: Sequence[float | None]) -> float | None:
    """Return the mean of the known answers, from 0 to 1; None without one."""
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else None


def may_be_judged(branch: Branch) -> bool:
    """Whether a branch has ended without an error, and has text."""
    return not branch.live and branch.error is None and bool(branch.text.strip())


def path(engine: Backend, branch: Branch) -> tuple[int, ...]:
    """Return the tokens of an ended branch, with its prompt."""
    buffer = branch.buffer
    tail = buffer.tail if buffer.ids else branch.generation.healed + branch.text
    return (*branch.generation.prompt_ids, *buffer.ids, *(engine.tokenize_continuation(tail) if tail else ()))


def asks(engine: Backend, branch: Branch, prepared: Sequence[Answers], priority: Priority) -> list[Request]:
    """Return a request for each question, which generates no text."""
    text = path(engine, branch)
    return [
        Request(
            (TokenRun("", (*text, *one.suffix)),), stop=ONLY_READ, priority=priority, add_bos=False,
            next_logprobs=_LIKELIEST, next_ids=one.ids,
            cache_salt=branch.generation.request.cache_salt,
        )
        for one in prepared
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a branch. ``answers`` are shares of yes in the order of the questions."""

    answers: tuple[float | None, ...]
    buffer: Buffer
    length: int  # the branch's tokens at that time

    @property
    def mean(self) -> float | None:
        """The mean of the known answers, from 0 to 1."""
        return mean(self.answers)

    def holds(self, branch: Branch) -> bool:
        """Whether the branch is unchanged since."""
        return not branch.live and branch.buffer is self.buffer and len(self.buffer.ids) == self.length


@dataclass
class Judgement:
    """The scores of the ended branches of a round by a rubric; answers arrive on the engine's thread."""

    questions: tuple[str, ...]
    scores: dict[int, Score] = field(default_factory=dict[int, Score])
    _pending: dict[int, list[Generation]] = field(default_factory=dict[int, "list[Generation]"])
    error: Exception | None = None
    beginning: bool = False  # whether questions are still being submitted
    total: int = 0
    """Number of branches that are being judged, or were judged last."""
    left: set[int] = field(default_factory=set[int])
    """Indices of those without a score."""
    stopped: bool = False

    @property
    def done(self) -> bool:
        return not self._pending and not self.beginning

    def stop(self) -> None:
        """Cancel open questions; branches without a score can be judged later."""
        self.stopped = True
        self.left.clear()
        pending = [generation for some in self._pending.values() for generation in some]
        self._pending.clear()
        for generation in pending:
            generation.cancel()

    def lacks(self, branch: Branch) -> bool:
        """Whether the branch has neither a valid score nor open questions."""
        return branch.index not in self._pending and self.score(branch) is None

    def score(self, branch: Branch) -> Score | None:
        """Return the score of a branch if it is unchanged since, or None."""
        found = self.scores.get(branch.index)
        return found if found is not None and found.holds(branch) else None

    def begin(self, engine: Backend, branches: Sequence[Branch], priority: Priority) -> list[Generation]:
        """Submit the questions of all ``branches`` at once. Raises EngineError."""
        begun: list[Generation] = []
        prepared = [answers(engine, question) for question in self.questions]
        for branch in branches:
            if self.stopped:
                break
            buffer, length = branch.buffer, len(branch.buffer.ids)
            try:
                under_way = [engine.submit(request) for request in asks(engine, branch, prepared, priority)]
            except ContextOverflow as error:
                self.error = error
                self._put(branch.index, Score((None,) * len(prepared), buffer, length))
                continue
            self._pending[branch.index] = under_way
            begun += under_way
            on_result = self._result_listener(branch.index, prepared, buffer, length)
            for generation in under_way:
                generation.add_listener(on_result)
            on_result()  # the generations may have ended already
        return begun

    def _result_listener(
        self, index: int, prepared: Sequence[Answers], buffer: Buffer, length: int
    ) -> Callable[[], None]:
        def on_result() -> None:
            under_way = self._pending.get(index)
            if under_way is None or not all(generation.done for generation in under_way):
                return
            self.error = next((g.error for g in under_way if g.error is not None), self.error)
            shares = tuple(
                None if g.error is not None else one.read(g.next_logprobs)
                for one, g in zip(prepared, under_way, strict=True)
            )
            self._put(index, Score(shares, buffer, length))
            self._pending.pop(index, None)

        return on_result

    def _put(self, index: int, score: Score) -> None:
        self.scores[index] = score
        self.left.discard(index)


def judge(
    engine: Backend, current: Round, rubric: tuple[str, ...],
    start: Callable[[Callable[[], None]], None] = lambda act: act(),
) -> Judgement:  # fmt: skip
    """Judge the ended branches of a round; scores that are still valid are kept.

    ``start`` submits the questions, after a remote engine has tokenised them. Raises NotSupported if the
    engine cannot, and ValueError without an ended branch or a question.
    """
    why = engine.capabilities.reason_for("next_logprobs")
    if why:
        raise NotSupported(f"Branches cannot be scored: {why}")
    if not rubric:
        raise ValueError("There are no questions. Write some with Questions for scoring.")
    judgement = current.judgement
    if not isinstance(judgement, Judgement) or judgement.questions != rubric:
        judgement = current.judgement = Judgement(rubric)
    ended = [branch for branch in current.branches if may_be_judged(branch)]
    if not ended:
        raise ValueError("No branch has ended yet. Wait until one has, or stop them (esc).")
    open_ = [branch for branch in ended if judgement.lacks(branch)]

    def begin() -> None:
        try:
            judgement.begin(engine, open_, Priority.NORMAL)
        except EngineError as error:
            judgement.error = error
        finally:
            judgement.beginning = False

    if open_ and not judgement.beginning:
        judgement.total = len(open_) + (0 if judgement.done else judgement.total)
        judgement.left.update(branch.index for branch in open_)
        judgement.error, judgement.beginning, judgement.stopped = None, True, False
        start(begin)
    return judgement


def by_score(current: Round) -> list[int]:
    """Return the indices of the branches, the best first; those without a score come last."""
    judgement = current.judgement
    means: Mapping[int, float | None] = {
        b.index: found.mean
        for b in current.branches
        if judgement is not None and (found := judgement.score(b)) is not None
    }
    known = {index: mean for index, mean in means.items() if mean is not None}
    rest = [b.index for b in current.branches if b.index not in known]
    return [*sorted(known, key=lambda index: (-known[index], index)), *rest]


def judge_round(desk: Desk) -> Judgement:
    """Judge the ended branches of the round in view; see :meth:`Judging.judge`."""
    with desk.state_lock:
        desk.take_up()
        if desk.round is None or desk.engine is None:
            raise ValueError("There are no branches yet. Write some first (ctrl+n).")
        note = desk.story.settings(desk.round.parent).author_note or ""
        return judge(desk.engine, desk.round, questions(_rubric(desk), note), _aside)


def _rubric(desk: Desk) -> str:
    kept = desk.story.value(KEPT)
    return kept if isinstance(kept, str) and kept.strip() else RUBRIC


def _has_scores(desk: Desk) -> bool:
    """Return whether the round in view is scored; if not, begin to score it. Raises why it cannot be."""
    before = desk.round.judgement if desk.round is not None else None
    if isinstance(before, Judgement) and before.error is not None:
        raise before.error
    return judge_round(desk).done


ORDERS[BY_SCORE] = ("the best score first, after F7 has scored the branches", by_score)
NEEDS[BY_SCORE] = _has_scores


class Judging(Instrument):
    """Judges the branches of the shown round."""

    name: ClassVar[str] = "judging"

    @property
    def rubric(self) -> str:
        """The questions of the story, one a line, as edited."""
        return _rubric(self._desk)

    def put_rubric(self, text: str) -> None:
        """Set the questions; none restores the built-in ones."""
        questions(text)
        self._desk.together(lambda: self._desk.story.put_value(KEPT, text))

    @property
    def _judgement(self) -> Judgement | None:
        current = self._desk.round
        found = current.judgement if current is not None else None
        return found if isinstance(found, Judgement) and not found.done else None

    @property
    def progress(self) -> str:
        running = self._judgement
        if running is None:
            return ""
        return f"scoring branches: {running.total - len(running.left)} of {running.total}"

    def stop(self) -> None:
        if (running := self._judgement) is not None:
            running.stop()

    def judge(self) -> Judgement:
        """Judge all ended branches by the rubric. Returns at once; the answers arrive later.

        Raises EngineError without a model that can, and ValueError without an ended branch.
        """
        return judge_round(self._desk)


def _aside(act: Callable[[], None]) -> None:
    threading.Thread(target=act, name="srbwriter-judging", daemon=True).start()
