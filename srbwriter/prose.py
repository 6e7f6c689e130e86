"""Where lines, sentences, paragraphs and words end, decided one character at a time.

The scanners never look at a character twice, so that a branch may be watched while it is written;
the helpers run the same scanners over a whole text. Stop rules, rewinding and the taking cursor all go
by it. Must never know tokens, requests or a story.

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
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

from srbwriter.unspaced import CHARACTER, STRETCH
from srbwriter.unspaced import word_ends as ends_of_stretch

Unit = Literal["word", "sentence", "paragraph"]
"""What a writer takes at a time."""

ABBREVIATIONS = frozenset(
    "Mr Mrs Ms Mx Messrs Dr Prof Rev Hon Fr Sr Jr St Mt Mme Mlle Capt Cmdr Col Cpl Gen Gov Lt Maj Sgt Pvt "
    "Adm Sen Rep Pres etc e.g i.e eg ie cf vs viz ca approx".split()
)
"""Words whose full stop does not end a sentence. Those that are everyday words too are left out."""

_WIDE_ENDERS = "。！？｡။"
_ENDERS = ".!?…‽؟۔।॥។៕" + _WIDE_ENDERS
_CLOSERS = "\"'”’»›)]}*_」』）】〉》〕］｝"
_TAIL = 16  # characters remembered before a full stop; longer than any abbreviation

_WIDE = frozenset(_WIDE_ENDERS)
_ENDER = re.compile(f"[{re.escape(_ENDERS)}]")
_ENDERS_AND_CLOSERS = re.compile(f"[{re.escape(_ENDERS + _CLOSERS)}]+")
_LINE_END_OR_WORD = re.compile(r"\n|\S")
_LAST_WORD = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*\Z")
_RUN = re.compile(r"\S+")


class Scanner(Protocol):
    """Follows a text as it grows and says where units of it end.

    ``position`` is the number of characters before the first one fed; ``inside`` says that they
    belong to a unit that has begun.
    """

    held: int
    """Characters at the end of what was fed that an end yet to be decided may cut off."""

    def feed(self, text: str) -> Sequence[int]:
        """Append ``text``; return the positions in the whole text at which units are now known to end."""
        ...

    def mark(self) -> None:
        """Only units that hold a character after this one, whitespace aside, end from now on."""
        ...


class LineScanner:
    """Lines end before ``\\n``; those with nothing but whitespace do not count."""

    def __init__(self, position: int = 0, inside: bool = False) -> None:
        self.held = 0
        self._position = position
        self._inside = inside

    def feed(self, text: str) -> Sequence[int]:
        ends: list[int] = []
        start = 0
        while (stop := text.find("\n", start)) >= 0:
            if self._inside or not _blank(text, start, stop):
                ends.append(self._position + stop)
            self._inside = False
            start = stop + 1
        self._inside = self._inside or not _blank(text, start, len(text))
        self._position += len(text)
        return ends

    def mark(self) -> None:
        self._inside = False


class ParagraphScanner:
    """Paragraphs end before a blank line, that is before ``\\n``, whitespace if any, ``\\n``."""

    def __init__(self, position: int = 0, inside: bool = False) -> None:
        self.held = 0
        self._position = position
        self._inside = inside
        self._end = -1  # of the paragraph, if only blanks follow up to the next line break

    def feed(self, text: str) -> Sequence[int]:
        if self._end < 0 and "\n" not in text:
            self._inside = self._inside or not _blank(text, 0, len(text))
            self._position += len(text)
            return ()
        ends: list[int] = []
        for i, char in enumerate(text, self._position):
            if char == "\n":
                if self._end >= 0:
                    ends.append(self._end)
                    self._end, self._inside = -1, False
                elif self._inside:
                    self._end = i
            elif not char.isspace():
                self._end, self._inside = -1, True
        self._position += len(text)
        self.held = self._position - self._end if self._end >= 0 else 0
        return ends

    def mark(self) -> None:
        self._end, self._inside = -1, False
        self.held = 0


class SentenceScanner:
    """Sentences by the rule at the top of this module; their closing quotes belong to them."""

    def __init__(self, position: int = 0) -> None:
        self._text, self._base = "", position  # what is not decided, a few characters before it, their place
        self._at = 0  # where it begins in _text
        self._floor = -1
        self._final: int | None = None
        self.held = 0

    def feed(self, text: str) -> Sequence[int]:
        ends: list[int] = []
        self._text += text
        self.held, self._final = 0, None
        goes_on: int | None = self._at
        while goes_on is not None:
            found = _ENDER.search(self._text, goes_on)
            self._at = found.start() if found else len(self._text)
            if not found:
                break
            end, goes_on, ended = self._weigh(self._at)
            if ended and self._base + end > self._floor:
                ends.append(self._base + end)
        gone = max(self._at - _TAIL, 0)
        self._text, self._base, self._at = self._text[gone:], self._base + gone, self._at - gone
        return ends

    def mark(self) -> None:
        self._floor = self._base + len(self._text)
        self.held = 0

    def final(self) -> int | None:
        """The end of a sentence that nothing follows; None when its full stop is missing."""
        return self._final

    def _weigh(self, i: int) -> tuple[int, int | None, bool]:
        """Return where a sentence may end, where to look on (None: more must come first), and if it ends."""
        text = self._text
        run = _ENDERS_AND_CLOSERS.match(text, i)
        end = run.end() if run else i + 1
        found = _LAST_WORD.search(text[max(i - _TAIL, 0) : i])
        enders, word = text[i:end], found[0] if found else ""
        initial = word[-1:].isupper() and word[-2:-1] in ("", ".") and word != "I"
        abbreviated = enders == "." and (initial or word in ABBREVIATIONS)
        if end == len(text):
            self._final = None if abbreviated else self._base + end
            return end, None, False
        if text[end] == "\n" or not _WIDE.isdisjoint(enders):
            return end, end, True
        if not text[end].isspace() or abbreviated:
            return end, end, False
        closed = any(char in _CLOSERS for char in enders)
        if not (closed or ".." in enders or "…" in enders or "." in word):
            return end, end, True
        following = _LINE_END_OR_WORD.search(text, end)
        if following is None:
            self._final = self._base + end
            self.held = self._base + len(text) - max(self._final, self._floor)
            return end, None, False
        return end, following.start(), not following[0].islower()


def sentence_ends(text: str) -> list[int]:
    """Positions at which sentences of ``text`` end; its own end counts when a full stop is there."""
    scanner = SentenceScanner()
    ends = list(scanner.feed(text))
    final = scanner.final()
    return ends if final is None else [*ends, final]


def word_ends(text: str) -> list[int]:
    """Positions at which words of ``text`` end; in scripts without spaces each character is one.

    Punctuation belongs to the word before it, an opening bracket or quote to the next.
    """
    if text.isascii() or not CHARACTER.search(text):
        return [run.end() for run in _RUN.finditer(text)]
    return [run.start() + end for run in _RUN.finditer(text) for end in _ends_in_run(run[0])]


def _ends_in_run(run: str) -> list[int]:
    """Return the ends of words in ``run``, which has no spaces; the last is its own end."""
    ends: list[int] = []
    for start, piece, unspaced in _pieces(run):
        if unspaced:
            ends += [start + word for word in ends_of_stretch(piece)]
            continue
        first = next((i for i, c in enumerate(piece) if c.isalnum() or _opens(c)), len(piece))
        if ends:
            ends[-1] += first
        stop = len(piece)
        while stop > first and _opens(piece[stop - 1]):
            stop -= 1
        if stop > first:
            ends.append(start + stop)
    if not ends or ends[-1] < len(run):
        ends[-1:] = [len(run)]
    return ends


def _pieces(run: str) -> Iterator[tuple[int, str, bool]]:
    """The parts of ``run``: where one starts, its text, and whether its script has no spaces."""
    start = 0
    for found in re.finditer(STRETCH, run):
        if found.start() > start:
            yield start, run[start : found.start()], False
        yield found.start(), found[0], True
        start = found.end()
    if start < len(run):
        yield start, run[start:], False


def _opens(char: str) -> bool:
    return unicodedata.category(char) in ("Ps", "Pi")


def line_ends(text: str) -> list[int]:
    """Positions at which lines of ``text`` that hold something end."""
    ends = list(LineScanner().feed(text))
    rest = text[ends[-1] if ends else 0 :]
    return [*ends, len(text.rstrip())] if rest.strip() else ends


def unit_ends(text: str, unit: Unit) -> list[int]:
    """Return the places in ``text`` where a partial pick may end; the last is the end of its last word.

    A sentence also ends with its line, and so does a paragraph: half of all stories have no blank lines.
    """
    if unit == "word":
        return word_ends(text)
    ends = line_ends(text)
    return ends if unit == "paragraph" else sorted({*ends, *sentence_ends(text)})


def last_sentence_start(text: str, sentences: int) -> int:
    """Where to cut ``text`` to drop its last ``sentences``; an unfinished one counts.

    The whitespace before the dropped sentences goes too. 0 when there are no more than that.
    """
    ends = sentence_ends(text)
    if not text[ends[-1] if ends else 0 :].strip():
        ends = ends[:-1]
    return ends[-sentences] if 0 < sentences <= len(ends) else (0 if sentences > 0 else len(text))


def _blank(text: str, start: int, stop: int) -> bool:
    return not text[start:stop].strip()
