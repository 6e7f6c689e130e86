"""Scripts without spaces between words: Han, kana and bopomofo; Thai, Lao, Khmer and Burmese.

Each of their characters, with the marks on it, is a word. Korean is not among them: it has spaces.
"""

from __future__ import annotations

import re

import regex

# Letters and marks of the Unicode Character Database, without digits and punctuation, as ranges for a
# character class.
EAST_ASIAN = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"  # iteration marks, numerals, 〆, 〇
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d"  # kana
    "\u3105-\u312f\u31a0-\u31bf\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # bopomofo, Han
    "\U0001aff0-\U0001b16f\U00020000-\U0003fffd"  # more kana, and the planes of Han
)
THAI_LAO = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"
KHMER_BURMESE = (
    "\u1780-\u17d3\u17d7\u17dc\u17dd\u1000-\u103f\u1050-\u108f\u109a-\u109d"
    "\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"
)
CHARACTERS = EAST_ASIAN + "\u3099\u309a\uff9e\uff9f" + THAI_LAO + KHMER_BURMESE  # with voicing marks
CHARACTER = re.compile(f"[{CHARACTERS}]")
"""A letter or mark of these scripts."""

WORD = rf"(?=[{CHARACTERS}])\X"
"""Pattern of what a reader takes for one character. Compiled on first use, which takes milliseconds."""


def words(text: str) -> list[tuple[int, int]]:
    """Where the words of these scripts in ``text`` start and end."""
    return [found.span() for found in regex.finditer(WORD, text)]
