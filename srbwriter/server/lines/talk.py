"""A conversation: what was said and written so far as tokens, turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import TokenRun
from srbwriter.server.lines.wire import Refused

_MOST_TURNS = 10_000

Runs = tuple[TokenRun, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one branch wrote, and how many tokens it has with all before it."""

    runs: Runs
    used: int


@dataclass(slots=True)
class Turn:
    """What a client said, and what was answered; the conversation goes on from one answer."""

    typed: str
    answers: Sequence[Answer]
    picked: int = 0

    @property
    def answer(self) -> Answer:
        return self.answers[self.picked]


class Talk:
    """Begins with ``start``, which is so many ``tokens``."""

    def __init__(self, start: Runs = (), tokens: int = 0) -> None:
        self._start = self._head = (start, tokens)
        self.turns: list[Turn] = []

    @property
    def runs(self) -> Runs:
        """All of it, as a prompt."""
        turns = (run for turn in self.turns for run in (*typed(turn.typed), *turn.answer.runs))
        return (*self._head[0], *turns)

    @property
    def used(self) -> int:
        """Tokens that all of it takes of the context."""
        return self.turns[-1].answer.used if self.turns else self._head[1]

    def check(self) -> None:
        """Raises Refused where no turn more is taken."""
        if len(self.turns) >= _MOST_TURNS:
            raise Refused(400, f"a conversation has at most {_MOST_TURNS} turns; RESET begins another")

    def add(self, text: str, generation: Generation, vocab: str) -> None:
        """A turn that was written; of the one before, only the answer that was picked is kept."""
        if self.turns:
            last = self.turns[-1]
            last.answers, last.picked = (last.answer,), 0
        before = len(generation.prompt_ids)
        answers = [
            Answer(_written(branch, vocab), before + len(branch.ids)) for branch in generation.branches
        ]
        self.turns.append(Turn(text, answers))

    def pick(self, number: int) -> None:
        """Go on from another answer of the latest turn. Raises Refused."""
        count = len(self.turns[-1].answers) if self.turns else 0
        if not 0 <= number < count:
            raise Refused(404, f"there is no answer {number}: the latest turn has {count}")
        self.turns[-1].picked = number

    def undo(self) -> None:
        """Take the latest turn back. Raises Refused."""
        if not self.turns:
            raise Refused(404, "there is no turn to take back")
        self.turns.pop()

    def reset(self) -> None:
        """Begin anew."""
        self._head = self._start
        self.turns.clear()

    def replace(self, runs: Runs, tokens: int) -> None:
        """Be another conversation."""
        self._head = (runs, tokens)
        self.turns.clear()


def typed(text: str) -> Runs:
    return (TokenRun(text),) if text else ()


def _written(branch: Branch, vocab: str) -> Runs:
    """The text of a branch, by its tokens as far as they spell it."""
    buffer, text = branch.buffer, branch.text
    if not buffer.ids:
        return typed(text)
    spelled = text[: len(text) - len(buffer.tail)]
    return (TokenRun(spelled, tuple(buffer.ids), vocab, branch.overlap), *typed(buffer.tail))
