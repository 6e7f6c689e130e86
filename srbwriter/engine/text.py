"""From tokens to text, branch by branch: UTF-8 across tokens, stop strings, stops at boundaries.

Runs once per branch and decode step, so that the usual token (whole characters, no rule) costs
one look-up. Must never know the model, sampling or who reads the text.
"""

from __future__ import annotations

import codecs
import copy
import hashlib
import re
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ..prose import LineScanner, ParagraphScanner, Scanner, SentenceScanner
from .types import Boundary, FinishReason, Stop

if TYPE_CHECKING:
    from .bans import Banned, PhraseReader


class Found(NamedTuple):
    """Places in the text that was read."""

    start: int
    end: int


class StopStrings:
    """The strings of one rule, ready to be looked for; any number of :class:`Reader` may share them.

    The automaton of Aho and Corasick (Efficient string matching, 1975): its state is the longest end of the
    text that some string begins with. So the time grows with the text alone, however many strings there are.
    """

    def __init__(self, strings: tuple[str, ...]) -> None:
        self.next: list[dict[str, int]] = [{}]
        self.depth: list[int] = [0]  # characters of the text's end that a state stands for
        self.match: list[int] = [0]  # characters of the longest string that ends there; 0 if none does
        for string in strings:
            self._add(string)
        self.back: list[int] = [0] * len(self.next)  # the state of the longest shorter end
        self._link()
        beginnings = "".join(sorted({re.escape(string[0]) for string in strings}))
        self.first = re.compile(f"[{beginnings}]")

    def _add(self, string: str) -> None:
        state = 0
        for character in string:
            following = self.next[state].get(character)
            if following is None:
                following = self.next[state][character] = len(self.next)
                self.next.append({})
                self.depth.append(self.depth[state] + 1)
                self.match.append(0)
            state = following
        self.match[state] = len(string)

    def _link(self) -> None:
        queue = deque(self.next[0].values())
        while queue:
            state = queue.popleft()
            self.match[state] = self.match[state] or self.match[self.back[state]]
            for character, following in self.next[state].items():
                self.back[following] = self.step(self.back[state], character)
                queue.append(following)

    def step(self, state: int, character: str) -> int:
        """The state after one character more."""
        while state and character not in self.next[state]:
            state = self.back[state]
        return self.next[state].get(character, 0)


@lru_cache(maxsize=32)
def stop_strings(strings: tuple[str, ...]) -> StopStrings:
    """The automaton of these strings, none of them empty: the branches of a request share one."""
    return StopStrings(strings)


class Reader:
    """Follows one text. What is read is never read again."""

    __slots__ = ("_state", "_strings")

    def __init__(self, strings: StopStrings) -> None:
        self._strings = strings
        self._state = 0

    @property
    def open(self) -> int:
        """Characters at the end of the text that may be the beginning of a string."""
        return self._strings.depth[self._state]

    def read(self, text: str) -> Found | None:
        """The match that ends in ``text`` and begins first, the longest of those; it may begin before 0."""
        strings, state, found = self._strings, self._state, None
        if not state and strings.first.search(text) is None:
            return None
        for end, character in enumerate(text, 1):
            state = strings.step(state, character)
            length = strings.match[state]
            if length and (found is None or end - length <= found.start):
                found = Found(end - length, end)
        self._state = state
        return found


_CONTEXT = 64  # characters of earlier text that a sentence scanner is given

_new_decoder = codecs.getincrementaldecoder("utf-8")


def fingerprint(pieces: Sequence[bytes]) -> str:
    """Names a vocabulary by all its tokens: equal ids mean equal text under equal fingerprints."""
    digest = hashlib.blake2b(digest_size=8)
    for piece in pieces:
        digest.update(len(piece).to_bytes(4, "little") + piece)
    return digest.hexdigest()


class Pieces:
    """What every token of a vocabulary writes; built once per model.

    ``text[i]`` is None where the bytes of token ``i`` are not whole UTF-8 characters.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.bytes: list[bytes] = list(pieces)
        self.text: list[str | None] = [_whole(piece) for piece in self.bytes]


def whole_tokens(pieces: Iterable[bytes]) -> int:
    """How many of the tokens that write ``pieces`` there are before a character that breaks off."""
    decoder, whole = _new_decoder("replace"), 0
    for count, piece in enumerate(pieces, 1):
        decoder.decode(piece)
        if not decoder.getstate()[0]:
            whole = count
    return whole


class Hit(NamedTuple):
    """A rule ended the branch: ``keep`` characters of its decoded text stay."""

    reason: FinishReason
    keep: int
    stop_text: str | None


class _Rules:
    """A :class:`Stop` made ready for checking."""

    def __init__(self, stop: Stop) -> None:
        strings = tuple(sorted({text for text in stop.strings if text}))
        self.strings: StopStrings | None = stop_strings(strings) if strings else None
        self.include = stop.include_string
        self.after_any = tuple(text for text in stop.after_any if text)
        self.after_from = max(stop.after_min_tokens + 1, stop.min_tokens)
        self.boundary: Boundary | None = stop.boundary
        self.boundary_from = stop.min_tokens
        self.plain = not (strings or self.after_any or self.boundary)


class _Mark(NamedTuple):
    """Where a text stood before a token."""

    decoder: tuple[bytes, int]
    partial: bool
    tokens: int
    decoded: int
    floor: int
    ahead: int
    held: str
    unread: str
    stops: Reader | None
    scanner: Scanner | None
    bans: PhraseReader

    @property
    def published(self) -> int:
        return self.decoded - len(self.held)


class BranchText:
    """The text of one branch, fed token by token.

    Publishing never takes back: text that a stop string, a boundary or a banned phrase may still cut
    off is held until that is decided. Matches lie wholly in text the model wrote after the last ``restart``
    or ``typed``, and no boundary falls before the first character there that is not whitespace.
    """

    __slots__ = (
        "_ahead", "_bans", "_before", "_decoder", "_floor", "_held", "_marks", "_pardoned", "_partial",
        "_plain", "_rules", "_scanner", "_stops", "_text", "_unread", "_vocabulary", "decoded", "tokens",
    )  # fmt: skip

    def __init__(self, pieces: Pieces, stop: Stop) -> None:
        self._vocabulary = pieces
        self._text = pieces.text
        self._decoder = _new_decoder("replace")
        self._rules: _Rules = _Rules(stop)
        self._held = self._pardoned = ""  # the latter: text that completes a banned phrase
        self._bans: PhraseReader | None = None
        self._before = ""  # the end of what stands before the text, as far as phrases may begin there
        self._marks: list[_Mark] = []  # of the last tokens, which may be part of a phrase
        self.restart("")

    @property
    def marks(self) -> int:
        """How many of the last tokens may be part of a banned phrase; their text is held back."""
        return len(self._marks)

    @property
    def published(self) -> int:
        """Characters published so far."""
        return self.decoded - len(self._held)

    def restart(self, text: str, tokens: int = 0, ahead: int = 0) -> None:
        """As if exactly ``text`` had been decoded and published, by ``tokens`` tokens.

        The next ``ahead`` characters count as typed: the model only spells out what a prompt ends
        with (token healing).
        """
        self._decoder.reset()
        self._partial = False
        self.tokens = tokens  # fed so far; what min_tokens and after_min_tokens count
        self.decoded = self._floor = len(text)  # characters, those held back included
        self._ahead = ahead
        self._let_go()
        if self._bans is not None:
            seen = self._before + text if text or not ahead else self._before[:-ahead]
            self._bans = self._bans.again(seen, self.decoded)
            self._marks.clear()
        self._plain = self._rules.plain and not ahead and self._bans is None
        before = text[-_CONTEXT:]
        self._scanner = _scanner(self._rules.boundary, self.decoded - len(before))
        if self._scanner is not None:
            self._scanner.feed(before)
            self._scanner.mark()

    @property
    def broken(self) -> bytes:
        """The beginning of a character of which the rest is still to come."""
        return self._decoder.getstate()[0]

    def break_in(self, broken: bytes) -> None:
        """The next token goes on with a character that begins with ``broken``."""
        self._decoder.decode(broken)
        self._partial = bool(broken)

    def set_stop(self, stop: Stop) -> None:
        """Other rules from the next token on; the text so far counts as begun."""
        rules = _Rules(stop)
        if rules.boundary != self._rules.boundary:
            self._scanner = _scanner(rules.boundary, self.published, self.decoded > self._floor)
            if self._scanner is not None:
                self._scanner.feed(self._held)
        self._rules = rules
        self._stops = _reader(rules)
        self._marks.clear()  # they know the rules as they were
        self._unread = self._held
        self._plain = rules.plain and not (self._held or self._ahead) and self._bans is None

    def set_bans(self, bans: PhraseReader | None, before: str = "", text: str = "") -> None:
        """Look for other phrases from the next token on. ``text`` is what was published, after ``before``."""
        self._bans, self._before = bans, before
        self._marks.clear()
        if bans is not None:
            seen = before + text + self._held
            self._bans = bans.again(seen[: len(seen) - self._ahead], self.decoded)
        self._plain = self._rules.plain and not (self._held or self._ahead) and bans is None

    def go_back(self, place: int) -> bool:
        """The text as it was ``place`` tokens from the beginning; False if that is not known any more."""
        back = self.tokens - place
        if not 0 <= back <= len(self._marks):
            return False
        if back:
            published, mark = self.published, self._marks[-back]
            self._decoder.setstate(mark.decoder)
            self._partial, self.tokens, self.decoded = mark.partial, mark.tokens, mark.decoded
            self._floor, self._ahead, self._unread = mark.floor, mark.ahead, mark.unread
            self._stops, self._scanner, self._bans = mark.stops, mark.scanner, mark.bans
            self._held = mark.held[max(published - mark.published, 0) :]
            del self._marks[-back:]
        return True

    def let_be(self) -> tuple[str, Hit | None]:
        """The phrase that :meth:`feed` has just found may stay; returns what that would have otherwise."""
        text, self._pardoned = self._pardoned, ""
        assert self._bans is not None
        self._held = self._held[: len(self._held) - len(text)]
        self._bans.forget()
        self._marks.clear()
        return self._spell(text) if self._ahead else self._check(text)

    def typed(self, text: str) -> str:
        """The writer goes on with ``text``: no rule looks at it. Returns what is to be published."""
        broken = self._flush() + text
        self.decoded += len(text)
        self._ahead = 0
        self._pass(broken)
        if self._bans is not None:
            self._bans.read(broken)
            self._marks.clear()
        return self._let_go() + broken

    def feed(self, token: int) -> tuple[str, Hit | Banned | None]:
        """One token more: text that may be published now, and the rule that ended the branch.

        Or a banned phrase that the token completes: only :meth:`go_back` or :meth:`let_be` may follow.
        Of several rules that end it with this token, the one that keeps least does. After a hit
        the text published in all is exactly the first ``keep`` characters decoded; only
        ``restart`` may follow it. Raises IndexError for a token outside the vocabulary.
        """
        if self._bans is not None:
            self._marks.append(self._mark(self._bans))
        self.tokens += 1
        text = self._text[token]
        if text is None or self._partial:
            text = self._decoder.decode(self._vocabulary.bytes[token])
            self._partial = bool(self._decoder.getstate()[0])
        self.decoded += len(text)
        if self._plain:
            return text, None
        if self._bans is not None and (banned := self._look(text, self._bans)) is not None:
            self._pardoned = text
            self._held += text
            return "", banned
        return self._spell(text) if self._ahead else self._check(text)

    def finish(self) -> str:
        """The branch ended without a hit: what was held back, a broken character as U+FFFD."""
        broken = self._flush()
        if self._scanner is not None:
            self._scanner.feed(broken)
            self._scanner.mark()
        return self._let_go() + broken

    def _mark(self, bans: PhraseReader) -> _Mark:
        stops, scanner = copy.copy(self._stops), copy.copy(self._scanner)
        return _Mark(
            self._decoder.getstate(), self._partial, self.tokens, self.decoded, self._floor, self._ahead,
            self._held, self._unread, stops, scanner, bans.copy(),
        )  # fmt: skip

    def _look(self, text: str, bans: PhraseReader) -> Banned | None:
        """A phrase that ends in what is new of ``text``."""
        banned = bans.read(text)
        if banned is not None and banned.end > self.decoded - len(text) + self._ahead:
            return banned
        marks, opened = self._marks, bans.opened
        closed = sum(1 for mark in marks[1:] if mark.decoded <= opened) + (self.decoded <= opened)
        del marks[:closed]
        return None

    def _let_go(self) -> str:
        """What was held back; no match can begin in it any more."""
        held, self._held = self._held, ""
        self._stops, self._unread = _reader(self._rules), ""
        return held

    def _flush(self) -> str:
        """What is left of a broken character."""
        broken = self._decoder.decode(b"", True)
        self._decoder.reset()
        self._partial = False
        self.decoded += len(broken)
        return broken

    def _pass(self, text: str) -> None:
        """No rule looks at ``text``, and none cuts into it."""
        self._floor = self.decoded
        if self._scanner is not None:
            self._scanner.feed(text)
            self._scanner.mark()

    def _spell(self, text: str) -> tuple[str, Hit | None]:
        """A token that writes, at least to begin with, what stands in the prompt already."""
        known, new = text[: self._ahead], text[self._ahead :]
        self._ahead -= len(known)
        self._pass(known)
        self._floor -= len(new)
        out, hit = self._check(new)
        return known + out, hit

    def _check(self, text: str) -> tuple[str, Hit | None]:
        rules = self._rules
        window = self._held + text
        published = self.decoded - len(window)
        hit, hold = (None, 0) if self._stops is None else self._find(window, text, self._stops)
        scanner = self._scanner
        if scanner is not None:
            ends = scanner.feed(text)
            hold = max(hold, scanner.held)
            if ends and self.tokens >= rules.boundary_from and (hit is None or ends[0] < hit.keep):
                hit = Hit(FinishReason(rules.boundary), ends[0], None)
        if hit is None and rules.after_any and self.tokens >= rules.after_from:
            hit = self._ends_token(text)
        if hit is not None:
            self._held = ""
            return window[: hit.keep - published], hit
        if self._marks:
            first = self._marks[0]
            hold = max(hold, self.decoded - (first.decoded if rules.plain else first.published))
        cut = len(window) - min(hold, len(window))
        self._held = window[cut:]
        self._plain = rules.plain and not self._ahead and self._bans is None
        return window[:cut], None

    def _find(self, window: str, text: str, stops: Reader) -> tuple[Hit | None, int]:
        """A stop string that ends in ``text``, or how much of the end of ``window`` may begin one."""
        unread, self._unread = self._unread + text, ""
        found = stops.read(unread)
        if found is None:
            return None, stops.open
        before = len(window) - len(unread)
        start, end = before + found.start, before + found.end
        keep = self.decoded - len(window) + (end if self._rules.include else start)
        return Hit(FinishReason.STOP, keep, window[start:end]), 0

    def _ends_token(self, text: str) -> Hit | None:
        for string in self._rules.after_any:
            if string in text:
                return Hit(FinishReason.STOP, self.decoded, string)
        return None


def _reader(rules: _Rules) -> Reader | None:
    return None if rules.strings is None else Reader(rules.strings)


def _scanner(boundary: Boundary | None, position: int, inside: bool = False) -> Scanner | None:
    match boundary:
        case None:
            return None
        case "line":
            return LineScanner(position, inside)
        case "paragraph":
            return ParagraphScanner(position, inside)
        case "sentence":
            return SentenceScanner(position)


def _whole(piece: bytes) -> str | None:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return None
