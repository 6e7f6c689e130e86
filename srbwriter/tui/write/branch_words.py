"""Texts about a branch: its state, its header line, and the thoughts at its beginning."""

from __future__ import annotations

from dataclasses import fields
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
    """Return one character for the state, so that colour is never the only sign; empty if it is done."""
    if branch.finish_reason is FinishReason.KILLED and not branch.live:
        return "×"
    return _SIGNS.get(branch.state, "")


def _number(value: float) -> str:
    """Format a number with at most two decimals; numbers below 0.01 with one significant digit."""
    return f"{round(value, 2) or float(f'{value:.1g}'):g}"


def sampling_words(branch: Branch, usual: object) -> str:
    """Return how the branch's sampling differs from ``usual``, for example ``temperature 1.2``."""
    differences: list[str] = []
    for field in fields(branch.sampling):
        value = getattr(branch.sampling, field.name)
        if field.name != "seed" and value != getattr(usual, field.name):
            name = "temp" if field.name == "temperature" else field.name.replace("_", " ")
            if field.name == "banned_phrases":
                value = len(branch.sampling.banned_phrases)
            if isinstance(value, tuple):  # too long to be read there
                continue
            differences.append(f"{name} {_number(value) if isinstance(value, float) else value}")
    return ", ".join(differences)


def head_line(number: int, parts: list[str], hidden: bool, width: int) -> str:
    """Return the header of a branch in ``width`` cells: its number, what is to be said of it, the most
    important first, and whether its end is ``hidden`` below."""
    right = "↓" if hidden else ""
    left = f" {number} {' · '.join(filter(None, parts))}"
    room = width - cell_len(right)
    if cell_len(left) > room:
        left = set_cell_size(left, max(0, room - 2)).rstrip() + "…"
    return set_cell_size(left, max(0, room)) + right


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
