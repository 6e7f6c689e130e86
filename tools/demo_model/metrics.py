"""What is counted in written text: repeats, variety, bent names. Pure functions; knows no model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_NAME = re.compile(r"[A-Z][a-zà-öø-ÿ]{3,}")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n\"“”—*(]\s*)$")
LOOP_GRAM = 8
DISTINCT_GRAM = 4


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; an apostrophe inside a word belongs to it."""
    return [word.replace("’", "'") for word in _WORD.findall(text.lower())]


def grams(items: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Return the runs of `size` items."""
    return [tuple(items[i : i + size]) for i in range(len(items) - size + 1)]


def loops(text: str) -> bool:
    """Return whether any run of eight words occurs twice."""
    runs = grams(words(text), LOOP_GRAM)
    return len(set(runs)) < len(runs)


def distinct(branches: Iterable[str]) -> float:
    """Return distinct-4: different runs of four words in the branches of a prompt, per run; 0 without any."""
    runs = [run for branch in branches for run in grams(words(branch), DISTINCT_GRAM)]
    return len(set(runs)) / len(runs) if runs else 0.0


def edit_distance(one: str, other: str) -> int:
    """Return the number of letters to insert, delete or replace."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


def read_word_list() -> frozenset[str]:
    """Return the English words of symspellpy's list, in lower case; first names are among them."""
    lines = (files("symspellpy") / "frequency_dictionary_en_82_765.txt").read_text("utf-8-sig").splitlines()
    return frozenset(line.split(" ")[0] for line in lines)


def capitalised(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the capitalised words of four letters or more, and whether each begins a sentence."""
    for found in _NAME.finditer(text):
        yield found.group(), bool(_SENTENCE_START.search(text, max(0, found.start() - 4), found.start()))


def count_names(prompt: str, text: str) -> int:
    """Return how often words of the text are names of the prompt: capitalised words amid its sentences."""
    names = {word for word, first in capitalised(prompt) if not first}
    return sum(word in names for word, _ in capitalised(text))


def bent_names(prompt: str, text: str, known: frozenset[str]) -> list[tuple[str, str]]:
    """Return (name, bent name) of each name of the prompt or text that comes back with one to three letters
    changed.

    What comes back is not among the `known` words, or stands amid a sentence as the name did. Each is
    counted once; plurals, and changes of half the word, are not.
    """
    seen, found = dict(capitalised(prompt)), list[tuple[str, str]]()
    for word, first in capitalised(text):
        if word not in seen:
            near = [
                name
                for name, began in seen.items()
                if _is_bent(name, word) and (word.lower() not in known or not (first or began))
            ]
            if near:
                found.append((min(near, key=lambda name: edit_distance(name, word)), word))
        seen[word] = first and seen.get(word, True)
    return found


def _is_bent(name: str, word: str) -> bool:
    short, long = sorted((name, word), key=len)
    plural = long in (short + "s", short + "es")
    return not plural and edit_distance(name, word) <= min(3, (len(name) - 1) // 2)
