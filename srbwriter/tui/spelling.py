"""Which words of a line are in no word list. Knows text; knows no widget.

The list is that of symspellpy (MIT): words of British and American English
that are both in SCOWL and in Google Books.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files

_LIST = "frequency_dictionary_en_82_765.txt"
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")


@cache
def word_list() -> frozenset[str]:
    """All words known, in small letters; reading them takes a moment, and happens once.

    Raises ModuleNotFoundError when symspellpy is not installed.
    """
    import symspellpy  # nobody without marks pays for it

    lines = files(symspellpy).joinpath(_LIST).read_text("utf-8-sig").splitlines()
    return frozenset(line.partition(" ")[0] for line in lines)


@lru_cache(maxsize=512)  # lines are painted again with every move of the cursor
def unknown(line: str) -> tuple[tuple[int, int], ...]:
    """(first character, character after the last) of each word that is in no list.

    A word with a capital is taken for a name.
    """
    return tuple(match.span() for match in _WORD.finditer(line) if not _known(match[0]))


def _known(word: str) -> bool:
    plain = word.replace("\u2019", "'")
    if len(plain) == 1 or plain != plain.lower():
        return True
    return plain in word_list() or plain.removesuffix("'s") in word_list()
