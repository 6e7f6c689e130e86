"""Phrases that never come: how they are found in a text as it grows, and where a branch goes back before one.

A phrase is looked for in what a branch reads, not in its tokens, so it does not matter how it is tokenised:
small and capital letters are alike, so are straight and curly quotation marks, and any run of whitespace is
one space. One that begins with a letter or digit begins where a word does (``he said`` is not found in *she
said*); where it ends does not matter (``shiver`` is found in *shivers*). It counts where it ends in words of
the model; it may begin in the prompt, or in what a person typed.

Where the branch goes back to, and when a phrase may stay, is the rule of
:class:`~srbwriter.engine.checkpoint.RewindPolicy`.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import ClassVar

from ..types import Sampling
from .base import GO_ON, Continue, Rewind, Watcher
from .stop_text import StopStrings

_WORD_START = "\0"
_QUOTES = str.maketrans("‘’‚‛“”„‟", "''''\"\"\"\"")


def _folded(char: str) -> str:
    small = char.lower()
    return small.translate(_QUOTES) if len(small) == 1 else char


class Phrases:
    """Phrases compiled for the search; any number of :class:`PhraseWatcher` may share them."""

    def __init__(self, texts: Iterable[str]) -> None:
        folded = {"".join(char for char, _ in _letters(text.strip(), 0, " ")): text for text in texts}
        self.texts = {letters: text for letters, text in folded.items() if letters}
        self.automaton = StopStrings(tuple(self.texts))
        self.longest = max(map(len, self.texts), default=0)


@lru_cache(maxsize=64)
def compile_phrases(texts: tuple[str, ...]) -> Phrases | None:
    """Return these phrases compiled, shared by all branches; None where all of them are blank."""
    return Phrases(texts) if any(text.strip() for text in texts) else None


def _letters(text: str, position: int, before: str) -> list[tuple[str, int]]:
    """Return the characters of ``text`` to compare, each with its position; ``before`` precedes them."""
    found: list[tuple[str, int]] = []
    for place, char in enumerate(text, position):
        if char.isspace():
            if not before.isspace():
                found.append((" ", place))
        else:
            if char.isalnum() and not before.isalnum():
                found.append((_WORD_START, place))
            found.append((_folded(char), place))
        before = char
    return found


class PhraseWatcher(Watcher):
    """Search one branch for phrases. Each character is read once.

    Args:
        phrases: the phrases to search for.
        prompt_end: the end of the text before the branch, in which a phrase may begin.
    """

    rewinds: ClassVar[bool] = True

    def __init__(self, phrases: Phrases, prompt_end: str = "") -> None:
        self._phrases, self._prompt_end = phrases, prompt_end
        self._recent: deque[tuple[str, int]] = deque(maxlen=max(phrases.longest, 1))  # letters, positions
        self._begin(prompt_end, 0)

    def _begin(self, before: str, position: int) -> None:
        """Start behind ``before``, which ends at ``position`` and completes no phrase."""
        tail = before[-4 * self._phrases.longest - 1 :]
        self._before, self._state = " ", 0
        self._recent.clear()
        self.position = position - len(tail)
        self.read(tail)

    @property
    def open_from(self) -> int:
        """Where the earliest phrase begins that the text may be about to complete; its end if none does."""
        depth = self._phrases.automaton.depth[self._state]
        return self._recent[-depth][1] if depth else self.position

    def read(self, text: str) -> Rewind | None:
        """Return the first phrase that is complete in ``text``; it may have begun before."""
        automaton, found = self._phrases.automaton, None
        for letter in _letters(text, self.position, self._before):
            self._state = automaton.step(self._state, letter[0])
            self._recent.append(letter)
            length = automaton.match[self._state]
            if length and found is None:
                found = self._found(length)
        self._before = text[-1:] or self._before
        self.position += len(text)
        return found

    def _found(self, length: int) -> Rewind:
        letters = list(self._recent)[-length:]
        text = self._phrases.texts["".join(letter for letter, _ in letters)]
        return Rewind(letters[0][1], letters[-1][1] + 1, text)

    def accept(self, text: str, end: int, tokens: int) -> Continue | Rewind:
        found = self.read(text)
        if found is not None:
            self._state = 0  # if the branch keeps the phrase, none has begun in it
            return found
        hold = end - self.open_from
        return Continue(hold, weigh=True) if hold else GO_ON

    def skip(self, text: str, end: int) -> None:
        self.read(text)

    def restart(self, text: str, position: int, pending: int) -> None:
        before = self._prompt_end + text
        if pending and not text:  # the model repeats the end of the prompt
            before = before[:-pending]
        self._begin(before, position)

    def copy(self) -> Watcher:
        other = copy.copy(self)
        other._recent = self._recent.copy()
        return other


def watch_phrases(sampling: Sampling, text_before: Callable[[int], str]) -> PhraseWatcher | None:
    """Return a watcher for the banned phrases of ``sampling``, if there are any."""
    phrases = compile_phrases(sampling.banned_phrases)
    if phrases is None:
        return None
    longest = max(map(len, sampling.banned_phrases))
    return PhraseWatcher(phrases, text_before(2 * longest + 1))
