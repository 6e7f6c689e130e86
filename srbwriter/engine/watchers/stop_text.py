"""Stop strings, and texts that end the branch behind the token in which they occur."""

from __future__ import annotations

import copy
import re
from collections import deque
from functools import lru_cache
from typing import NamedTuple

from ..types import FinishReason, Stop
from .base import GO_ON, Continue, Finish, Watcher


class Match(NamedTuple):
    """Places in the text that was read; ``start`` is negative where the match began in earlier text."""

    start: int
    end: int


class StopStrings:
    """The strings of one rule as an automaton; any number of :class:`Reader` may share it.

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
        """Return the state after one more character."""
        while state and character not in self.next[state]:
            state = self.back[state]
        return self.next[state].get(character, 0)


@lru_cache(maxsize=32)
def stop_strings(strings: tuple[str, ...]) -> StopStrings:
    """Return the automaton of these strings, none of them empty; branches with equal rules share it."""
    return StopStrings(strings)


class Reader:
    """Looks for strings in one text. What was read is never read again."""

    __slots__ = ("_state", "_strings")

    def __init__(self, strings: StopStrings) -> None:
        self._strings = strings
        self._state = 0

    @property
    def open(self) -> int:
        """Characters at the end of the text that may be the beginning of a string."""
        return self._strings.depth[self._state]

    def read(self, text: str) -> Match | None:
        """Return the match that ends in ``text`` and begins first, the longest of those."""
        strings, state, found = self._strings, self._state, None
        if not state and strings.first.search(text) is None:
            return None
        for end, character in enumerate(text, 1):
            state = strings.step(state, character)
            length = strings.match[state]
            if length and (found is None or end - length <= found.start):
                found = Match(end - length, end)
        self._state = state
        return found


class StopStringWatcher(Watcher):
    """Ends a branch before the first stop string, or behind it if it is to be included."""

    def __init__(self, strings: StopStrings, include: bool) -> None:
        self._strings, self._include = strings, include
        self._reader = Reader(strings)
        self._recent = ""  # the end of the text, as far as a string may have begun there
        self._unread = ""  # text that was held back when these rules came

    def accept(self, text: str, end: int, tokens: int) -> Continue | Finish:
        unread, self._unread = self._unread + text, ""
        recent = self._recent + unread
        found = self._reader.read(unread)
        if found is None:
            hold = self._reader.open
            self._recent = recent[len(recent) - hold :]
            return Continue(hold) if hold else GO_ON
        before = len(recent) - len(unread)
        start, stop = before + found.start, before + found.end
        keep = end - len(recent) + (stop if self._include else start)
        return Finish(FinishReason.STOP, keep, recent[start:stop])

    def skip(self, text: str, end: int) -> None:
        self._reader, self._recent, self._unread = Reader(self._strings), "", ""

    def restart(self, text: str, position: int, pending: int) -> None:
        self.skip(text, position)

    def resume(self, held: str, published: int, inside: bool, earlier: Watcher | None) -> None:
        self._reader, self._recent, self._unread = Reader(self._strings), "", held

    def copy(self) -> Watcher:
        other = copy.copy(self)
        other._reader = copy.copy(self._reader)
        return other


class TokenEndingWatcher(Watcher):
    """Ends a branch behind the token in whose text one of ``texts`` occurs, from the ``first`` token on."""

    def __init__(self, texts: tuple[str, ...], first: int) -> None:
        self._texts, self._first = texts, first

    def accept(self, text: str, end: int, tokens: int) -> Continue | Finish:
        if tokens >= self._first:
            for wanted in self._texts:
                if wanted in text:
                    return Finish(FinishReason.STOP, end, wanted)
        return GO_ON


def watch_stop_strings(stop: Stop) -> StopStringWatcher | None:
    """Return a watcher for the stop strings of ``stop``, if it has any."""
    strings = tuple(sorted({text for text in stop.strings if text}))
    return StopStringWatcher(stop_strings(strings), stop.include_string) if strings else None


def watch_token_endings(stop: Stop) -> TokenEndingWatcher | None:
    """Return a watcher for ``stop.after_any``, if it names any text."""
    texts = tuple(text for text in stop.after_any if text)
    return TokenEndingWatcher(texts, max(stop.after_min_tokens + 1, stop.min_tokens)) if texts else None
