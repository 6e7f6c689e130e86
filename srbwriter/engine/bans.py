"""Phrases that never come: how they are found in a text as it grows, and where a branch turns off before one.

A phrase is looked for in what a branch reads, not in its tokens, so it does not matter how it is tokenised:
small and large letters are alike, so are straight and curly quotation marks, and any run of whitespace is one
space. One that begins with a letter or digit begins where a word does (``he said`` is not found in *she
said*); where it ends does not matter (``shiver`` is found in *shivers*). It counts where it ends in words of
the model; it may begin in the prompt, or in what a person typed.

On a hit a branch goes back to the last token that could well have been another, and this token is not chosen
there again: the same token is allowed at every other place, and at this one as soon as something before it
changes. Where too little is left to choose from it goes further back. After ``TRIES`` attempts at one place
it goes back behind the phrase's beginning, and after as many more lets it be; half as many are made at the
next place then. So it ends, whatever is banned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .text import StopStrings

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENOUGH = 0.1
"""Probability that is left to other tokens, at least, where a branch turns off: one way in ten."""

TRIES = 16
"""Attempts at one place before a branch goes back further; after twice as many the phrase is let be."""

_WORD_BEGINS = "\0"
_QUOTES = str.maketrans("‘’‚‛“”„‟", "''''\"\"\"\"")


def _folded(char: str) -> str:
    small = char.lower()
    return small.translate(_QUOTES) if len(small) == 1 else char


class Phrases:
    """Phrases ready to be looked for; any number of :class:`PhraseReader` may share them."""

    def __init__(self, texts: Iterable[str]) -> None:
        spelt = {"".join(char for char, _ in _letters(text.strip(), 0, " ")): text for text in texts}
        self.texts = {letters: text for letters, text in spelt.items() if letters}
        self.automaton = StopStrings(tuple(self.texts))
        self.longest = max(map(len, self.texts), default=0)


@lru_cache(maxsize=64)
def phrases(texts: tuple[str, ...]) -> Phrases | None:
    """The automaton of these phrases, which branches share; None where there is nothing but blanks."""
    return Phrases(texts) if any(text.strip() for text in texts) else None


def _letters(text: str, position: int, before: str) -> list[tuple[str, int]]:
    """What is compared of ``text``, which follows the character ``before``; each with its place."""
    found: list[tuple[str, int]] = []
    for place, char in enumerate(text, position):
        if char.isspace():
            if not before.isspace():
                found.append((" ", place))
        else:
            if char.isalnum() and not before.isalnum():
                found.append((_WORD_BEGINS, place))
            found.append((_folded(char), place))
        before = char
    return found


class Banned(NamedTuple):
    """A phrase that is not to come has come, at these places of the decoded text."""

    start: int
    end: int
    phrase: str


class PhraseReader:
    """Follows one text. What is read is never read again."""

    __slots__ = ("_before", "_phrases", "_seen", "_state", "position")

    def __init__(self, known: Phrases, before: str, position: int) -> None:
        """``before`` is the text that ends at ``position``; what stands in it is no hit."""
        self._phrases = known
        self._before = " "
        self._state = 0
        self._seen: deque[tuple[str, int]] = deque(maxlen=max(known.longest, 1))  # letters, their places
        tail = before[-4 * known.longest - 1 :]
        self.position = position - len(tail)
        self.read(tail)

    def again(self, before: str, position: int) -> PhraseReader:
        """One for the same phrases that has read another text."""
        return PhraseReader(self._phrases, before, position)

    def copy(self) -> PhraseReader:
        """One that has read the same."""
        other = object.__new__(PhraseReader)
        other._phrases, other._before, other._state = self._phrases, self._before, self._state
        other._seen, other.position = self._seen.copy(), self.position
        return other

    @property
    def opened(self) -> int:
        """Where the earliest phrase begins that the text may be about to complete; its end if none does."""
        depth = self._phrases.automaton.depth[self._state]
        return self._seen[-depth][1] if depth else self.position

    def read(self, text: str) -> Banned | None:
        """The first phrase that is complete in ``text``; it may have begun before."""
        automaton, found = self._phrases.automaton, None
        for letter in _letters(text, self.position, self._before):
            self._state = automaton.step(self._state, letter[0])
            self._seen.append(letter)
            length = automaton.match[self._state]
            if length and found is None:
                found = self._found(length)
        self._before = text[-1:] or self._before
        self.position += len(text)
        return found

    def forget(self) -> None:
        """No phrase has begun in what was read."""
        self._state = 0

    def _found(self, length: int) -> Banned:
        letters = list(self._seen)[-length:]
        text = self._phrases.texts["".join(letter for letter, _ in letters)]
        return Banned(letters[0][1], letters[-1][1] + 1, text)


class Turnings:
    """Where one branch may turn off before a phrase, and where it has."""

    def __init__(self) -> None:
        self.rows: list[NDArray[np.float32]] = []  # logits that the last tokens were chosen from
        self.barred: dict[int, set[int]] = {}  # tokens not to be chosen at a place, on the way as it is
        self._trouble = -1  # the farthest beginning of a phrase
        self._tries = 0  # since that was reached
        self._most = 2 * TRIES  # of them; fewer where phrases had to be let be just before

    @property
    def exhausted(self) -> bool:
        """Whether the phrase is let be."""
        return self._tries >= self._most

    def keep(self, row: NDArray[np.float32], held: int) -> None:
        """``row`` led to the last token; ``held`` tokens may be part of a phrase."""
        self.rows.append(row)
        del self.rows[: max(len(self.rows) - held, 0)]

    def met(self, start: int) -> None:
        """A phrase has come that begins at the character ``start``, or there is no way on from there."""
        if start > self._trouble:
            self._most = max(self._most // 2, 2) if self.exhausted else min(self._most * 2, 2 * TRIES)
            self._trouble, self._tries = start, 0
        self._tries += 1

    def place(self, ids: Sequence[int], first: int, floor: int) -> int | None:
        """The place in ``ids`` to turn off at, where a phrase begins in the token ``first``.

        None if there is none: before ``floor`` are words that are no token of the model.
        """
        if self.exhausted:
            return None
        beyond = self._tries - self._most // 2
        if beyond > 0:
            return max(first - beyond, floor) if first > floor else None
        begin = len(ids) - len(self.rows)
        places = range(len(ids) - 1, max(first, floor, begin) - 1, -1)
        left = {place: self._left(place, ids[place], self.rows[place - begin]) for place in places}
        enough = next((place for place in places if left[place] >= ENOUGH), None)
        if enough is not None:
            return enough
        return max(places, key=lambda place: left[place], default=len(ids) - 1 if len(ids) > floor else None)

    def turn_off(self, place: int, ids: Sequence[int]) -> NDArray[np.float32] | None:
        """Another way than that of ``ids`` is taken from ``place``; the logits there, if they are kept."""
        self.barred = {k: tokens for k, tokens in self.barred.items() if k <= place}
        self.barred.setdefault(place, set()).add(ids[place])
        number = place - (len(ids) - len(self.rows))
        row = self.rows[number] if number >= 0 else None
        del self.rows[max(number, 0) :]
        return row

    def give_up(self) -> None:
        """There is no other way: the next phrase is let be."""
        self._tries = self._most
        self.barred.clear()

    def forget(self) -> None:
        """The text is another one."""
        self.rows.clear()
        self.barred.clear()
        self._trouble, self._tries, self._most = -1, 0, 2 * TRIES

    def _left(self, place: int, token: int, row: NDArray[np.float32]) -> float:
        """Probability of what is neither ``token`` nor barred at ``place``."""
        odds = np.exp(row - row.max())
        gone = odds[[token, *(self.barred.get(place, set()) - {token})]].sum()
        return float(1.0 - gone / odds.sum())
