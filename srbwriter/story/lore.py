"""Lorebook entries whose keys match the end of a story.

Imported regular expressions are not trusted, so each search, and all searches of one scan together, have a
time limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import regex

from srbwriter.story.model import LoreEntry
from srbwriter.unspaced import CHARACTER, CHARACTERS

DEFAULT_SCAN_DEPTH = 4000
"""Default number of characters from the end of the story that are searched."""

SEARCH_SECONDS = 0.05
"""Longest time for one regular expression."""

SCAN_SECONDS = 0.5
"""Longest time of the processor for all regular expressions of one scan."""

MAX_PATTERN = 1000
"""Longest pattern, in characters, that is compiled at all."""

MAX_EXPANSION = 10_000
"""Largest product of the counts ``{n}`` of a pattern: the compiler writes them out, one within the other."""

_FLAGS = {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL}
_COUNT = regex.compile(r"\{(\d+)(?:,\d*)?\}")
_IDLE_FLAGS = frozenset("guyv")  # JavaScript flags that change nothing about whether a text matches


class LoreKeyError(ValueError):
    """A key written as a regular expression cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class LoreProblem:
    """A key that was skipped, and why, in words for the writer."""

    entry_id: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class LoreScan:
    """The activated entries in their given order, and the keys that could not be tried."""

    active: tuple[LoreEntry, ...]
    problems: tuple[LoreProblem, ...] = ()


def scan(entries: Iterable[LoreEntry], tail: str, *, scan_depth: int | None = None) -> LoreScan:
    """Find the entries that ``tail``, the end of the story, activates.

    ``tail`` should reach back as far as the deepest scan (:func:`reach`).  A bad or slow key counts
    as not matching and is reported, never raised.
    """
    problems, left = list[LoreProblem](), SCAN_SECONDS

    def matches(entry: LoreEntry, key: str) -> bool:
        nonlocal left
        if not key.strip():
            return False
        started = time.thread_time()  # processor time, so that a busy machine loses no entry
        try:
            if left <= 0:
                raise LoreKeyError("the time for all lorebook keys of this scan was used up")
            pattern = compile_key(key, entry.case_sensitive, entry.whole_words)
            begin = max(len(tail) - _depth(entry, scan_depth), 0)
            limit = min(SEARCH_SECONDS, left)
            return pattern.search(tail[begin:], timeout=limit, concurrent=False) is not None
        except TimeoutError:
            problems.append(LoreProblem(entry.id, key, f"the search took longer than {SEARCH_SECONDS} s"))
        except LoreKeyError as error:
            problems.append(LoreProblem(entry.id, key, str(error)))
        finally:
            left -= time.thread_time() - started
        return False

    active = tuple(
        entry
        for entry in entries
        if entry.enabled and entry.text
        and (entry.constant or any(matches(entry, key) for key in entry.keys))
    )  # fmt: skip
    return LoreScan(active, tuple(problems))


def reach(entries: Iterable[LoreEntry], scan_depth: int | None = None) -> int:
    """Return how many characters from the end of the story :func:`scan` can search."""
    return max((_depth(entry, scan_depth) for entry in entries), default=0)


def is_regex(key: str) -> bool:
    """Whether a key is written as ``/pattern/flags``."""
    return len(key) > 2 and key.startswith("/") and key.rfind("/") > 1


_PATTERN = r"/(?:[^/\\]|\\.)+/[a-z]*"
_IN_LINE = regex.compile(
    rf"""\s*+(?:"(?<quoted>(?:[^"]|"")*)"|(?<plain>{_PATTERN}|[^,]*?))\s*(?:,|\Z)""", regex.DOTALL
)
_PLAIN = regex.compile(rf'{_PATTERN}|(?![\s"/])[^,]+(?<!\s)', regex.DOTALL)


def keys_from(line: str) -> list[str]:
    """Split a line of keys at commas, except commas in double quotes or in a pattern."""
    found = [(match["quoted"], match["plain"]) for match in _IN_LINE.finditer(line)]
    return [plain if quoted is None else quoted.replace('""', '"') for quoted, plain in found if plain != ""]


def keys_text(keys: Iterable[str]) -> str:
    """The inverse of :func:`keys_from`."""
    return ", ".join(key if _PLAIN.fullmatch(key) else '"' + key.replace('"', '""') + '"' for key in keys)


@lru_cache(maxsize=512)
def compile_key(key: str, case_sensitive: bool = True, whole_words: bool = False) -> regex.Pattern[str]:
    """Compile a key. Raises :class:`LoreKeyError` for an unusable regular expression."""
    if is_regex(key):
        return _compile_regex(key)
    key = key.strip()
    pattern = regex.escape(key)
    if whole_words and key:  # a word can begin and end anywhere beside a script without spaces
        before = "" if CHARACTER.match(key[0]) else rf"(?<![^\W{CHARACTERS}])"
        behind = "" if CHARACTER.match(key[-1]) else rf"(?![^\W{CHARACTERS}])"
        pattern = f"{before}{pattern}{behind}"
    return regex.compile(pattern, 0 if case_sensitive else regex.IGNORECASE | regex.FULLCASE)


def _compile_regex(key: str) -> regex.Pattern[str]:
    pattern, flag_text = key[1 : key.rfind("/")], key[key.rfind("/") + 1 :]
    if len(pattern) > MAX_PATTERN:
        raise LoreKeyError(f"the pattern is longer than {MAX_PATTERN} characters")
    if math.prod(max(int(count), 1) for count in _COUNT.findall(pattern)) > MAX_EXPANSION:
        raise LoreKeyError(f"its counts multiply to more than {MAX_EXPANSION} steps")
    flags = regex.VERSION0
    for letter in flag_text:
        if letter not in _FLAGS and letter not in _IDLE_FLAGS:
            raise LoreKeyError(f"unknown flag {letter!r} after the closing slash")
        flags |= _FLAGS.get(letter, 0)
    try:
        return regex.compile(pattern.replace(r"\/", "/"), flags)
    except (regex.error, RecursionError, OverflowError, MemoryError) as error:
        raise LoreKeyError(f"not a regular expression: {error}") from error


def _depth(entry: LoreEntry, scan_depth: int | None) -> int:
    if entry.scan_depth is not None:
        return entry.scan_depth
    return DEFAULT_SCAN_DEPTH if scan_depth is None else scan_depth
