"""Where lines, sentences, paragraphs and words end.

A scanner follows a text while it is written; the helpers go over a whole text by the same rules. Stop rules,
rewinding and the taking cursor use them. Must never know tokens, requests or a story.

The sentence rule: one or more of ``. ! ? …`` with the closing quotes and brackets behind them ends
a sentence when whitespace follows. It does not end one

* as a lone full stop after a title, a common abbreviation or a single capital other than ``I``
  (an initial), unless the line ends there too;
* after an ellipsis, a closing quote or bracket, or a dotted word such as ``p.m.``, when the next
  word begins in lower case (``"Wait!" she said``), unless the line ends first.

``。 ！ ？ ။`` need no whitespace behind them.
"""

from __future__ import annotations

import re
from typing import Literal

import regex

from srbwriter.unspaced import CHARACTER, CHARACTERS
from srbwriter.unspaced import WORD as UNSPACED_WORD

Unit = Literal["word", "sentence", "paragraph"]
"""What a writer takes at a time."""

ABBREVIATIONS = frozenset(
    "Mr Mrs Ms Mx Messrs Dr Prof Rev Hon Fr Sr Jr St Mt Mme Mlle Capt Cmdr Col Cpl Gen Gov Lt Maj Sgt Pvt "
    "Adm Sen Rep Pres etc e.g i.e eg ie cf vs viz ca approx".split()
)
"""Words whose full stop does not end a sentence. Those that are everyday words too are left out."""

_WIDE_ENDERS = "。！？｡။"
_ENDERS = ".!?…‽؟۔।॥။៕" + _WIDE_ENDERS
_CLOSERS = "\"'”’»›)]}*_」』）】〉》〕］｝"
_TAIL = 16  # characters looked at before a full stop; longer than any abbreviation

_WIDE = frozenset(_WIDE_ENDERS)
_END = re.compile(f"[{re.escape(_ENDERS)}][{re.escape(_ENDERS + _CLOSERS)}]*")
_LINE_END_OR_WORD = re.compile(r"\n|\S")
_LAST_WORD = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*\Z")
_PARAGRAPH_END = re.compile(r"\n(?=[^\S\n]*(\n|\Z))")
_OPENERS = r"\p{Ps}\p{Pi}"
_WORD = (  # punctuation belongs to the word before it, an opening bracket or quote to the next
    rf"(?:[^\s\p{{L}}\p{{N}}{CHARACTERS}]*{UNSPACED_WORD}[^\s\p{{L}}\p{{N}}{_OPENERS}{CHARACTERS}]*"
    rf"|[^\s{CHARACTERS}]*[^\s{CHARACTERS}{_OPENERS}])(?:[{_OPENERS}]+(?!\S))?|[{_OPENERS}]+"
)


class Scanner:
    """Follows a text as it grows and says where its lines, sentences or paragraphs end.

    Lines end before ``\\n``, paragraphs before a blank line, and what holds only whitespace is none.
    ``position`` is the number of characters before the first one fed.

    Attributes:
        held: characters at the end of what was fed that an end yet to be decided may cut off.
    """

    def __init__(self, unit: Literal["line", "sentence", "paragraph"], position: int = 0) -> None:
        self._unit, self._base = unit, position  # the place of the text
        self._text = ""  # since the last end
        self._at = self._floor = self.held = 0  # in it: what is decided, and what mark() is about

    def feed(self, text: str) -> list[int]:
        """Append ``text``; return the positions in the whole text at which units are now known to end."""
        self._text += text
        ends, self._at, undecided = _FIND[self._unit](self._text, self._at)
        found, start = list[int](), 0
        for end in ends:
            if self._holds_something(start, end):
                found.append(self._base + end)
            start = end
        open_end = undecided if undecided is not None and self._holds_something(start, undecided) else None
        self.held = 0 if open_end is None else len(self._text) - open_end
        self._text, self._base = self._text[start:], self._base + start
        self._at, self._floor = self._at - start, max(self._floor - start, 0)
        return found

    def mark(self) -> None:
        """Only units that hold a character after this one, whitespace aside, end from now on."""
        self._floor, self.held = len(self._text), 0

    def _holds_something(self, start: int, end: int) -> bool:
        return bool(self._text[max(start, self._floor) : end].strip())


_Found = tuple[list[int], int, int | None]
"""Places in a text where units end, or blanks; up to where that is decided; a place that may become one."""


def _find_lines(text: str, start: int) -> _Found:
    return [start + found.start() for found in re.finditer("\n", text[start:])], len(text), None


def _find_paragraphs(text: str, start: int) -> _Found:
    ends = list[int]()
    for found in _PARAGRAPH_END.finditer(text, start):
        if not found[1]:
            return ends, found.start(), found.start()
        ends.append(found.start())
    return ends, len(text), None


def _find_sentences(text: str, start: int) -> _Found:
    ends = list[int]()
    while found := _END.search(text, start):
        start, end = found.span()
        last = _LAST_WORD.search(text[max(start - _TAIL, 0) : start])
        enders, word = found[0], last[0] if last else ""
        initial = word[-1:].isupper() and word[-2:-1] in ("", ".") and word != "I"
        abbreviated = enders == "." and (initial or word in ABBREVIATIONS)
        if end == len(text):
            return ends, start, None if abbreviated else end
        if text[end] == "\n" or not _WIDE.isdisjoint(enders):
            ends.append(end)
        elif text[end].isspace() and not abbreviated:
            closed = any(char in _CLOSERS for char in enders)
            if closed or ".." in enders or "…" in enders or "." in word:
                following = _LINE_END_OR_WORD.search(text, end)
                if following is None:
                    return ends, start, end
                if not following[0].islower():
                    ends.append(end)
            else:
                ends.append(end)
        start = end
    return ends, len(text), None


_FIND = {"line": _find_lines, "sentence": _find_sentences, "paragraph": _find_paragraphs}


def sentence_ends(text: str) -> list[int]:
    """Positions at which sentences of ``text`` end; its own end counts when a full stop is there."""
    ends, _, last = _find_sentences(text, 0)
    return ends if last is None else [*ends, last]


def word_ends(text: str) -> list[int]:
    """Positions at which words of ``text`` end; in scripts without spaces each character is one.

    Punctuation belongs to the word before it, an opening bracket or quote to the next.
    """
    spaced = text.isascii() or not CHARACTER.search(text)
    return [found.end() for found in regex.finditer(r"\S+" if spaced else _WORD, text)]


def unit_ends(text: str, unit: Unit) -> list[int]:
    """Return the places in ``text`` where a partial pick may end; the last is the end of its last word.

    A sentence also ends with its line, and so does a paragraph: half of all stories have no blank lines.
    """
    if unit == "word":
        return word_ends(text)
    lines = [found.end() for found in re.finditer(r"\S[^\n]*(?<=\S)", text)]
    return lines if unit == "paragraph" else sorted({*lines, *sentence_ends(text)})


def last_sentence_start(text: str, sentences: int) -> int:
    """Where to cut ``text`` to drop its last ``sentences``; an unfinished one counts.

    The whitespace before the dropped sentences goes too. 0 when there are no more than that.
    """
    ends = sentence_ends(text)
    if not text[ends[-1] if ends else 0 :].strip():
        ends = ends[:-1]
    return ends[-sentences] if 0 < sentences <= len(ends) else (0 if sentences > 0 else len(text))
