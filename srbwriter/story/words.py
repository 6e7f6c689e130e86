"""Word counts that can be added up along the nodes of a path.

A word is a run of characters between white space or dashes that holds a letter or a digit. In scripts without
spaces it is a fixed number of characters: one in Chinese and Japanese, four letters or marks in Thai and Lao,
five in Khmer and Burmese. Therefore counts of parts add up exactly (:class:`Count` is a monoid), a path is
counted without reading its text, and stored counts do not depend on the version of a dictionary.

The four and five are means: in the frequency list of the Thai National Corpus a word has 4.1 letters and
marks, in that of Thai textbooks 3.9; words as ICU cuts them have in the Universal Declaration of Human
Rights 4.0 in Thai, 4.2 in Lao, 5.1 in Khmer and 5.0 in Burmese.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from srbwriter.unspaced import (
    CHARACTER,
    EAST_ASIAN,
    KHMER_BURMESE,
    KHMER_BURMESE_MARKS,
    THAI_LAO,
    THAI_LAO_MARKS,
)

_DASHES = "\u2012", "\u2013", "\u2014", "\u2015"  # they separate words: figure, en and em dash, bar
_LETTER = re.compile(r"[^\W_]")

_WHOLE = 20  # a word, in the parts below
_PARTS = (  # compiled when such a text is counted: a class of this size takes milliseconds
    (f"[{EAST_ASIAN}]", _WHOLE),
    (f"[{THAI_LAO}{THAI_LAO_MARKS}]", _WHOLE // 4),
    (f"[{KHMER_BURMESE}{KHMER_BURMESE_MARKS}]", _WHOLE // 5),
)

_BLOCK_CHARS, _BLOCKS = 4096, 1024  # the blocks remembered are a long novel's


@dataclass(frozen=True, slots=True)
class Count:
    """The words of a text, and the state at its edges that adding the next text's count needs.

    An edge is 0 (closed by white space or a dash, or no text), 1 (open, no letter in it) or 2 (open, with a
    letter: it counts as a word). ``single`` says that the whole text is one open run. ``rest`` is the
    remainder of scripts whose words are a number of letters, in twentieths of a word.
    """

    SINGLE: ClassVar[int] = 1 << 4
    """In :attr:`edges`: the whole text is one open run; alone, with no words, it is no text."""

    words: int = 0
    left: int = 0
    right: int = 0
    single: bool = False
    rest: int = 0

    def __add__(self, other: Count) -> Count:
        return Count.total(((self.words, self.edges), (other.words, other.edges)))

    @property
    def edges(self) -> int:
        """All fields but the words as one small number, for :meth:`total`."""
        return self.left | self.right << 2 | self.single << 4 | self.rest << 5

    @classmethod
    def total(cls, rows: Iterable[tuple[int, int]]) -> Count:
        """Add counts given as (words, edges). A path has thousands, and every action adds them up."""
        words = left = right = rest = 0
        single = begun = False
        for more, edges in rows:
            if not more and edges == cls.SINGLE:
                continue
            first, last, one = edges & 3, edges >> 2 & 3, bool(edges & cls.SINGLE)
            if not begun:
                begun, left, single = True, first, True
            joined = max(right, first) if right and first else 0  # the run across the seam
            words += more - (right == first == 2)  # a word on both sides is one
            rest += edges >> 5
            if single and joined:
                left = joined
            right = joined if joined and one else last
            single = single and one
        if not begun:
            return NOTHING
        return cls(words + rest // _WHOLE, left, right, single, rest % _WHOLE)


NOTHING = Count(single=True)


def well_formed(text: str) -> str:
    """Return ``text`` with lone surrogates, which cannot be stored, replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def count(text: str) -> Count:
    """Count the words of ``text``. Counts of the blocks of a long text are cached."""
    if len(text) <= 2 * _BLOCK_CHARS:
        return _count(text)
    rows, start = list[tuple[int, int]](), 0
    while len(text) - start > 2 * _BLOCK_CHARS:
        end = _block_end(text, start)
        rows.append(_count_block(text[start:end]))
        start = end
    last = _count(text[start:])
    return Count.total([*rows, (last.words, last.edges)])


def _block_end(text: str, start: int) -> int:
    """Return the end of a block: a line end or a space, so that blocks after an insertion stay the same."""
    least, most = start + _BLOCK_CHARS, start + 2 * _BLOCK_CHARS
    for mark in ("\n", " "):
        if (found := text.find(mark, least, most)) >= 0:
            return found + 1
    return most


@lru_cache(maxsize=_BLOCKS)
def _count_block(text: str) -> tuple[int, int]:
    found = _count(text)
    return found.words, found.edges


def _count(text: str) -> Count:
    if not text:
        return NOTHING
    parts = 0
    if not text.isascii() and CHARACTER.search(text):
        parts = sum(len(re.findall(pattern, text)) * part for pattern, part in _PARTS)
        text = CHARACTER.sub(" ", text)
    if not text.isascii():
        for dash in _DASHES:
            text = text.replace(dash, " ")
    pieces = text.split()
    unlettered = sum(1 for piece in pieces if not (piece[0].isalnum() or _LETTER.search(piece)))
    open_left, open_right = bool(pieces) and not text[0].isspace(), bool(pieces) and not text[-1].isspace()
    return Count(
        words=len(pieces) - unlettered + parts // _WHOLE,
        left=_edge(pieces[0]) if open_left else 0,
        right=_edge(pieces[-1]) if open_right else 0,
        single=len(pieces) == 1 and open_left and open_right,
        rest=parts % _WHOLE,
    )


def _edge(piece: str) -> int:
    return 2 if _LETTER.search(piece) else 1


def words_of(text: str) -> int:
    """Count the words of ``text``."""
    return count(text).words
