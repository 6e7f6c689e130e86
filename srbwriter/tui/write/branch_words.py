"""Texts about a branch: its state, its header line, and the thoughts at its beginning."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from srbwriter.engine.generation import Branch
from srbwriter.engine.types import BranchState, FinishReason

_REASONS: dict[str, str] = {
    FinishReason.EOG: "the end",
    FinishReason.CONTEXT: "no room left",
    FinishReason.STOPPED: "stopped",
    FinishReason.KILLED: "killed",
    FinishReason.ERROR: "failed",
}

_SIGNS = {
    BranchState.WAITING: "·",
    BranchState.PROMPT: "…",
    BranchState.WRITING: "▸",
    BranchState.PAUSED: "‖",
    BranchState.DONE: "■",
    BranchState.FAILED: "!",
}


def state_words(branch: Branch) -> str:
    """Return the state of the branch in words, for example ``writing`` or ``reading 62 %``."""
    if branch.state is BranchState.DONE:
        return ended_words(branch.finish_reason)
    if branch.state is BranchState.FAILED and branch.error is not None:
        return f"failed: {branch.error}"
    if branch.state is BranchState.PROMPT:
        total = len(branch.generation.prompt_ids)
        return f"reading {100 * branch.generation.prompt_done // total} %" if total else "reading"
    return branch.state.value


def ended_words(reason: str | None) -> str:
    """Return why a branch ended, if that is worth a word: not where it is simply done."""
    return _REASONS.get(reason or "", "")


def state_sign(branch: Branch) -> str:
    """Return one character for the state; all states differ in it, so that colour is never the only sign."""
    if branch.finish_reason is FinishReason.KILLED and not branch.live:
        return "×"
    return _SIGNS[branch.state]


def _number(value: float) -> str:
    """Format a number with at most two decimals; numbers below 0.01 with one significant digit."""
    return f"{round(value, 2) or float(f'{value:.1g}'):g}"


def sampling_words(branch: Branch, usual: object) -> str:
    """Return how the branch's sampling differs from ``usual``, for example ``temperature 1.2``."""
    from dataclasses import fields

    differences: list[str] = []
    for field in fields(branch.sampling):
        value = getattr(branch.sampling, field.name)
        if field.name != "seed" and value != getattr(usual, field.name):
            name = "temp" if field.name == "temperature" else field.name.replace("_", " ")
            if field.name == "banned_phrases":
                value = len(branch.sampling.banned_phrases)
            differences.append(f"{name} {_number(value) if isinstance(value, float) else value}")
    return ", ".join(differences)


NO_BREAK = "\xa0"
"""Between the words of one mark."""
_SHORT_MARKS = {
    f"chosen{NO_BREAK}by{NO_BREAK}you": "↳",
    "ready": "»",
    f"last{NO_BREAK}sentence": "⇥",
}


class Head(NamedTuple):
    """The parts of a branch's header; empty or 0 means nothing to show."""

    name: str
    sign: str = ""  # of the state
    state: str = ""  # in words
    thoughts: int = 0  # number of hidden words
    note: str = ""  # how its sampling differs, comma-separated
    marks: str = ""  # separated by spaces
    hidden: int = 0  # lines below the visible ones
    tokens: int = 0
    speed: float = 0.0  # tokens a second
    stale: bool = False  # written for an earlier text; replaces the state's words, not its sign

    def line(self, width: int) -> str:
        """Return the header, shortened to ``width`` cells."""
        parts = {
            "state": "written for an earlier text" if self.stale else self.state,
            "thoughts": f"thought {self.thoughts} words" if self.thoughts else "",
            "note": self.note,
            "marks": self.marks.replace(NO_BREAK, " "),
            "hidden": f"↓{self.hidden}" if self.hidden else "",
            "tokens": f"{self.tokens} tok" if self.tokens else "",
            "speed": f"{self.speed:.0f}/s" if self.speed else "",
        }
        left, right = self._sides(parts)
        for part, shorter in self._shorter():
            if cell_len(left) + cell_len(right) + bool(right) <= width:
                break
            parts[part] = shorter
            left, right = self._sides(parts)
        return f"{set_cell_size(left, max(0, width - cell_len(right)))}{right}"

    def _shorter(self) -> tuple[tuple[str, str], ...]:
        """Return the shortenings of parts, in the order in which they are applied until the line fits."""
        note, *more = self.note.split(", ")
        marks = self.marks.split(" ")
        state = "for an earlier text" if self.stale else self.state.partition(":")[0]
        last_words = "earlier text" if self.stale else ""  # the sign still shows the state
        return (
            ("speed", ""),
            ("tokens", str(self.tokens or "")),
            ("state", state),
            ("thoughts", f"thought {self.thoughts}" if self.thoughts else ""),
            ("note", f"{note} …" if more else note),
            ("marks", " ".join(_SHORT_MARKS.get(mark, mark) for mark in marks)),
            ("tokens", ""),
            ("hidden", ""),
            ("state", last_words),
            ("thoughts", ""),
            ("note", ""),
        )

    def _sides(self, parts: dict[str, str]) -> tuple[str, str]:
        left = f" {self.name} {self.sign} {parts['state']}".rstrip()
        left += "".join(f" · {parts[part]}" for part in ("thoughts", "note", "marks") if parts[part])
        return left, " ".join(parts[part] for part in ("hidden", "tokens", "speed") if parts[part])


_MARKS = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<|channel>thought", "<channel|>"))


class Thoughts(NamedTuple):
    """The thoughts of a model: their word count and ``end``, the offset of the text after them.

    ``end`` is None while the model is still thinking.
    """

    words: int
    end: int | None


NO_THOUGHTS = Thoughts(0, 0)


def find_thoughts(text: str) -> Thoughts:
    """Return the thoughts at the beginning of a branch's text, or NO_THOUGHTS."""
    begun = text.lstrip()
    for opening, closing in _MARKS:
        if begun.startswith(opening):
            start = text.index(opening) + len(opening)
            end = text.find(closing, start)
            if end < 0:
                return Thoughts(len(text[start:].split()), None)
            behind = end + len(closing)
            behind += len(text[behind:]) - len(text[behind:].lstrip())
            return Thoughts(len(text[start:end].split()), behind)
    return NO_THOUGHTS
