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

Thai and Lao have no full stop; a space parts clauses, items and numbers as well as sentences. One ends a
sentence there when its line has had twenty letters and marks since the last end, and the next word begins
with a letter and is none of those that join clauses (``แต่``, ``ซึ่ง`` …).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Literal, Protocol

from srbwriter.unspaced import CHARACTER, STRETCH, THAI_LAO, THAI_LAO_MARKS
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

_ENDER = re.compile(f"[{re.escape(_ENDERS)}]")
_LAST_WORD = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*\Z")
_RUN = re.compile(r"\S+")

_THAI = re.compile(f"[{THAI_LAO}{THAI_LAO_MARKS}]")
_THAI_LETTER = re.compile("[\u0e01-\u0e2e\u0e40-\u0e44\u0e81-\u0eae\u0ec0-\u0ec4]")  # one that begins words
_THAI_REPEATS = "\u0e46\u0ec6"  # ๆ, ໆ: the word before once more; often between spaces
_THAI_SENTENCE = 20  # letters and marks; a space after fewer parts a list, or a word that is stressed
_THAI_JOINERS = frozenset(
    "และ หรือ แต่ ที่ ซึ่ง ว่า เพราะ เพื่อ โดย จึง ก็ แล้ว จน กับ ของ ใน "
    "ແລະ ຫຼື ແຕ່ ທີ່ ຊຶ່ງ ວ່າ ເພາະ ເພື່ອ ໂດຍ ຈຶ່ງ ກໍ ແລ້ວ ຈົນ ກັບ ຂອງ ໃນ".split()
)
"""Words that continue a clause, or are the beginning of one that does."""


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


class _State(IntEnum):
    BODY = 0  # in a sentence, or before one
    CLOSING = 1  # behind its full stop
    AFTER = 2  # in whitespace behind an end that the next word decides


class SentenceScanner:
    """Sentences by the rule at the top of this module; their closing quotes belong to them."""

    def __init__(self, position: int = 0) -> None:
        self._state = _State.BODY
        self._tail = ""
        self._end = self._floor = -1
        self._word = ""  # before the enders
        self._enders, self._last = 0, ""
        self._wide = self._trailing = self._closed = False
        self._thai = False  # True from the first letter of Thai or Lao on
        self._letters = 0  # of Thai or Lao, in this sentence and line
        self._ahead: str | None = None  # of the word behind a space that may end a sentence of Thai
        self._position = position
        self.held = 0

    def feed(self, text: str) -> Sequence[int]:
        ends: list[int] = []
        self._thai = self._thai or not (text.isascii() or _THAI.search(text) is None)
        if self._state is not _State.BODY or self._thai or _ENDER.search(text):
            self._scan(text, ends)
        self._position += len(text)
        self._tail = text[-_TAIL:] if len(text) >= _TAIL else (self._tail + text)[-_TAIL:]
        return ends

    def mark(self) -> None:
        self._floor = self._position
        self.held = 0

    def final(self) -> int | None:
        """The end of a sentence that nothing follows; None when its full stop is missing."""
        if self._state is _State.BODY or (self._state is _State.CLOSING and self._abbreviated()):
            return None
        return self._end if self._ahead is None else None

    def _scan(self, text: str, ends: list[int]) -> None:
        i = 0
        while i < len(text):
            if self._state is _State.AFTER:
                self._weigh(text[i], ends)
            elif self._state is _State.CLOSING:
                self._close(text[i], self._position + i + 1, ends)
            if self._state is _State.BODY:
                i = self._seek(text, i)
                if i < len(text):
                    self._open(text, i)
            i += 1

    def _seek(self, text: str, i: int) -> int:
        """Return the place of the next character from ``i`` that may end a sentence; else the text's end."""
        if not self._thai:
            found = _ENDER.search(text, i)
            return found.start() if found else len(text)
        while i < len(text):
            char = text[i]
            if char in _ENDERS:
                break
            if char == " " and self._letters >= _THAI_SENTENCE and self._thai_before(text, i):
                break
            if char == "\n":
                self._letters = 0
            elif _THAI.match(char):
                self._letters += 1
            i += 1
        return i

    def _thai_before(self, text: str, i: int) -> bool:
        """A word of Thai or Lao ends at ``i``."""
        before = text[i - 1] if i else self._tail[-1:]
        return before not in _THAI_REPEATS and _THAI.match(before) is not None

    def _open(self, text: str, i: int) -> None:
        """The character at ``i`` may end the sentence."""
        if text[i] == " ":
            self._state, self.held, self._ahead = _State.AFTER, 1, ""
            self._end = self._position + i
            return
        word = _LAST_WORD.search(text[i - _TAIL : i] if i >= _TAIL else self._tail + text[:i])
        self._word = word[0] if word else ""
        self._enders, self._last = 0, ""
        self._wide = self._trailing = self._closed = False
        self._state = _State.CLOSING
        self._add(text[i], self._position + i + 1)

    def _add(self, ender: str, end: int) -> None:
        """One more of ``. ! ?``, up to ``end``."""
        self._trailing = self._trailing or ender == "…" or (ender == "." and self._last == ".")
        self._wide = self._wide or ender in _WIDE_ENDERS
        self._last, self._end = ender, end
        self._enders += 1

    def _close(self, char: str, end: int, ends: list[int]) -> None:
        """Take ``char``, which ends at ``end`` and follows an ender."""
        if char in _ENDERS:
            self._add(char, end)
        elif char in _CLOSERS:
            self._closed, self._end = True, end
        elif char == "\n" or self._wide:
            self._finish(ends)
        elif not char.isspace() or self._abbreviated():
            self._state = _State.BODY
        elif self._closed or self._trailing or "." in self._word:
            self._state, self.held = _State.AFTER, 1
        else:
            self._finish(ends)

    def _weigh(self, char: str, ends: list[int]) -> None:
        """``char`` follows an end and whitespace."""
        if self._ahead is not None:
            self._weigh_thai(char, ends)
        elif char == "\n" or not (char.isspace() or char.islower()):
            self._finish(ends)
        elif char.islower():
            self._state, self.held = _State.BODY, 0
        else:
            self.held += 1

    def _weigh_thai(self, char: str, ends: list[int]) -> None:
        """``char`` follows a space, and what there is already of the word behind it."""
        word = f"{self._ahead}{char}".lstrip(" ")
        if not word or (any(j.startswith(word) for j in _THAI_JOINERS) and word not in _THAI_JOINERS):
            self._ahead = word
            self.held += 1
        elif word in _THAI_JOINERS or not _THAI_LETTER.match(word):
            self._state, self.held, self._ahead = _State.BODY, 0, None
        else:
            self._finish(ends)

    def _finish(self, ends: list[int]) -> None:
        self._state, self.held, self._ahead = _State.BODY, 0, None
        self._letters = 0
        if self._end > self._floor:
            ends.append(self._end)

    def _abbreviated(self) -> bool:
        """A lone full stop belongs to the word before it."""
        if self._enders != 1 or self._closed or self._last != ".":
            return False
        initial = self._word[-1:].isupper() and self._word[-2:-1] in ("", ".") and self._word != "I"
        return initial or self._word in ABBREVIATIONS


def sentence_ends(text: str) -> list[int]:
    """Positions at which sentences of ``text`` end; its own end counts when a full stop is there."""
    scanner = SentenceScanner()
    ends = list(scanner.feed(text))
    final = scanner.final()
    return ends if final is None else [*ends, final]


def word_ends(text: str) -> list[int]:
    """Positions at which words of ``text`` end; in scripts without spaces a dictionary says so.

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
