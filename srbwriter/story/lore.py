"""Lorebook entries whose keys match the end of a story.

Imported regular expressions are not trusted, so each search has a time limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import regex

from srbwriter.story.model import LoreEntry
from srbwriter.unspaced import CHARACTERS

DEFAULT_SCAN_DEPTH = 4000
"""Default number of characters from the end of the story that are searched."""

SEARCH_SECONDS = 0.05
"""Longest time for one regular expression."""

MAX_EXPANSION = 10_000
"""Largest product of the counts ``{n}`` of a pattern: the compiler writes them out, one within the other."""

_FLAGS = {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL}
_PATTERN = regex.compile(r"/(.+)/([gimsuyv]*)", regex.DOTALL)  # with the flags of JavaScript
_COUNT = regex.compile(r"\{(\d+)(?:,\d*)?\}")
_KEY = regex.compile(
    r'\s*+(?:"(?<quoted>(?:[^"]|"")*)"|(?<plain>/(?:[^/\\]|\\.)+/[a-z]*|[^,]*?))\s*(?:,|\Z)', regex.DOTALL
)
# A word can begin and end anywhere beside a script without spaces.
_BEGIN = rf"(?:(?<![^\W{CHARACTERS}])|(?=[{CHARACTERS}]))"
_END = rf"(?:(?![^\W{CHARACTERS}])|(?<=[{CHARACTERS}]))"


def scan(
    entries: Iterable[LoreEntry], text: str, *, scan_depth: int | None = None
) -> tuple[list[LoreEntry], list[str]]:
    """Return the entries that the end of ``text`` activates, and what was wrong with keys.

    ``scan_depth`` is how many characters of it are searched for entries that do not say that. A bad or slow
    key counts as not matching.
    """
    usual = DEFAULT_SCAN_DEPTH if scan_depth is None else scan_depth
    problems = list[str]()

    def matches(entry: LoreEntry, key: str) -> bool:
        depth = usual if entry.scan_depth is None else entry.scan_depth
        try:
            pattern = compile_key(key, entry.case_sensitive, entry.whole_words)
            end = text[max(len(text) - depth, 0) :]
            return pattern.search(end, timeout=SEARCH_SECONDS, concurrent=False) is not None
        except TimeoutError:
            reason = f"the search took longer than {SEARCH_SECONDS} s"
        except ValueError as error:
            reason = str(error)
        problems.append(f"the key {key} of {entry.name or 'an entry'} in the lorebook was left out: {reason}")
        return False

    active = [
        entry
        for entry in entries
        if entry.enabled and entry.text
        and (entry.constant or any(key.strip() and matches(entry, key) for key in entry.keys))
    ]  # fmt: skip
    return active, problems


def keys_from(line: str) -> list[str]:
    """Split a line of keys at commas, except commas in double quotes or in a pattern."""
    found = [(match["quoted"], match["plain"]) for match in _KEY.finditer(line)]
    return [plain if quoted is None else quoted.replace('""', '"') for quoted, plain in found if plain != ""]


def keys_text(keys: Iterable[str]) -> str:
    """The inverse of :func:`keys_from`."""
    return ", ".join(
        key if keys_from(f'{key}, /, "') == [key, "/", '"'] else '"' + key.replace('"', '""') + '"'
        for key in keys
    )


@lru_cache(maxsize=512)
def compile_key(key: str, case_sensitive: bool = True, whole_words: bool = False) -> regex.Pattern[str]:
    """Compile a key: text, or a regular expression as ``/pattern/flags``. Raises ValueError for one
    that cannot be used."""
    if (found := _PATTERN.fullmatch(key)) is None:
        pattern = regex.escape(key.strip())
        pattern = f"{_BEGIN}{pattern}{_END}" if whole_words else pattern
        return regex.compile(pattern, 0 if case_sensitive else regex.IGNORECASE | regex.FULLCASE)
    if math.prod(max(int(count), 1) for count in _COUNT.findall(found[1])) > MAX_EXPANSION:
        raise ValueError(f"its counts multiply to more than {MAX_EXPANSION} steps")
    try:
        flags = sum({_FLAGS.get(letter, 0) for letter in found[2]}) | regex.VERSION0
        return regex.compile(found[1].replace(r"\/", "/"), flags)
    except (regex.error, RecursionError, OverflowError, MemoryError) as error:
        raise ValueError(f"not a regular expression: {error}") from error
