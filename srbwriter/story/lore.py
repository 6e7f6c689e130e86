"""Lorebook entries whose keys match the end of a story.

Imported regular expressions are not trusted, so each search has a time limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import regex

from srbwriter.story.model import LoreEntry
from srbwriter.unspaced import CHARACTERS

DEFAULT_SCAN_DEPTH = 4000  # characters from the end of the story that are searched
SEARCH_SECONDS = 0.05  # longest time for one regular expression
MAX_EXPANSION = 10_000  # largest product of the counts {n} of a pattern: the compiler writes them out

_PATTERN = regex.compile(r"/(.+)/([gimsuyv]*)", regex.DOTALL)  # with the flags of JavaScript
_COUNT = regex.compile(r"\{0*([1-9]\d*)(?:,\d*)?\}")
_KEY = regex.compile(r"\s*+(/(?:[^/\\]|\\.)+/[a-z]*(?=\s*(?:,|\Z))|(?:\\,|[^,])*)", regex.DOTALL)
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

    def occurs(key: str, entry: LoreEntry) -> bool:
        depth = usual if entry.scan_depth is None else entry.scan_depth
        end = text[max(len(text) - depth, 0) :]
        try:
            pattern = compile_key(key, entry.case_sensitive, entry.whole_words)
            return pattern.search(end, timeout=SEARCH_SECONDS, concurrent=False) is not None
        except (regex.error, RecursionError, OverflowError, MemoryError, TimeoutError) as error:
            name = entry.name or "an entry"
            problems.append(f"the key {key} of {name} in the lorebook was left out: {error}")
        return False

    active = [
        entry
        for entry in entries
        if entry.enabled and entry.text
        and (entry.constant or any(key.strip() and occurs(key, entry) for key in entry.keys))
    ]  # fmt: skip
    return active, problems


def keys_from(line: str) -> list[str]:
    """Split a line of keys at commas, except commas behind a backslash or in a pattern."""
    return [key.strip().replace(r"\,", ",") for key in _KEY.findall(line) if key.strip()]


def keys_text(keys: Iterable[str]) -> str:
    """The inverse of :func:`keys_from`."""
    return ", ".join(key.replace(",", r"\,") for key in keys)


def compile_key(key: str, case_sensitive: bool = True, whole_words: bool = False) -> regex.Pattern[str]:
    """Compile a key: text, or a regular expression as ``/pattern/flags``. Raises regex.error, among others,
    for one that cannot be used."""
    if found := _PATTERN.fullmatch(key):
        if math.prod(map(int, _COUNT.findall(found[1]))) > MAX_EXPANSION:
            raise regex.error(f"its counts multiply to more than {MAX_EXPANSION} steps")
        flags = sum(regex.RegexFlag[flag] for flag in {"I", "M", "S"} & {*found[2].upper()})
        return regex.compile(found[1].replace(r"\/", "/"), flags | regex.VERSION0)
    pattern = regex.escape(key.strip())
    pattern = f"{_BEGIN}{pattern}{_END}" if whole_words else pattern
    return regex.compile(pattern, 0 if case_sensitive else regex.IGNORECASE | regex.FULLCASE)
