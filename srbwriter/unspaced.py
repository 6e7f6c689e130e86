"""Scripts without spaces between words: Han, kana and bopomofo; Thai, Lao, Khmer and Burmese.

Each of their characters, with the marks on it, is a word.
"""

from __future__ import annotations

import re

# Letters and marks of the Unicode Character Database, without digits and punctuation, as ranges for a
# character class. Korean is not among them: it has spaces.
EAST_ASIAN = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"  # iteration marks, numerals, 〆, 〇
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d"  # kana
    "\u3105-\u312f\u31a0-\u31bf"  # bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U0001aff0-\U0001b16f\U00020000-\U0003fffd"  # more kana, and the planes of Han
)
EAST_ASIAN_MARKS = "\u3099\u309a\uff9e\uff9f"
THAI_LAO = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46"  # Thai
    "\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf"  # Lao
)
THAI_LAO_MARKS = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece"
KHMER_BURMESE = (
    "\u1780-\u17b3\u17d7\u17dc"  # Khmer
    "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066"  # Burmese
    "\u106e-\u1070\u1075-\u1081\u108e\ua9e0-\ua9e4\ua9e6-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a\uaa7e\uaa7f"
)
KHMER_BURMESE_MARKS = (
    "\u17b4-\u17d3\u17dd"
    "\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f"
    "\u109a-\u109d\ua9e5\uaa7b-\uaa7d"
)
MARKS = EAST_ASIAN_MARKS + THAI_LAO_MARKS + KHMER_BURMESE_MARKS

_LETTERS = EAST_ASIAN + THAI_LAO + KHMER_BURMESE
_UNSEEN = "\u200b-\u200d\u2060\ufe00-\ufe0f\U000e0100-\U000e01ef"  # may occur between letters

CHARACTERS = _LETTERS + MARKS
CHARACTER = re.compile(f"[{CHARACTERS}]")
"""A letter or mark of these scripts."""

# Compiled on first use: a class of this size takes milliseconds.
STRETCH = f"[{_LETTERS}][{CHARACTERS}{_UNSEEN}]*"
"""A run of letters and marks, with joiners, zero-width spaces and variation selectors."""
_CLUSTER = f"[{_LETTERS}][{MARKS}{_UNSEEN}]*"  # what a reader takes for one character


def word_ends(stretch: str) -> list[int]:
    """Where the words of ``stretch``, a :data:`STRETCH`, end: after each of its characters."""
    return [cluster.end() for cluster in re.finditer(_CLUSTER, stretch)]


def words(text: str) -> list[tuple[int, int]]:
    """Where the words of these scripts in ``text`` start and end."""
    found: list[tuple[int, int]] = []
    for stretch in re.finditer(STRETCH, text):
        ends = [stretch.start() + end for end in word_ends(stretch[0])]
        found += zip([stretch.start(), *ends], ends, strict=False)
    return found
