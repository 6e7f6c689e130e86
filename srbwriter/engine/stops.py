"""Stop strings, looked for in time that grows with the text alone, however many and however long they are.

The automaton of Aho and Corasick (Efficient string matching, 1975): its state is the longest end of the text
that some string begins with. Knows text only.
"""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from typing import NamedTuple


class Found(NamedTuple):
    """Places in the text that was read."""

    start: int
    end: int


class StopStrings:
    """The strings of one rule, ready to be looked for; any number of :class:`Reader` may share them."""

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
