"""The text before branches when they were requested, to find out whether the story still begins with it.

Only a digest and the last characters are kept, because a whole book may precede each of many rounds.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple

from srbwriter.story import Node, Story
from srbwriter.story.model import JsonValue
from srbwriter.unspaced import CHARACTER

END_CHARS = 48
"""Characters kept of a text's end: more than the longest word."""
_GOES_ON = re.compile(r"[’'-]?\w")
_OPENING = re.compile(r"[“‘«(\[{¿¡]|[\"']\w")
_OPENED = re.compile(r"(?:[“‘«(\[{¿¡—–/-]|(?:^|\s)[\"'])$")


class Prefix(NamedTuple):
    """The text before the branches of a round when they were requested."""

    length: int
    digest: str
    end: str
    """Its last characters."""

    @classmethod
    def of(cls, text: str) -> Prefix:
        """Return the prefix for the whole ``text``."""
        return cls(len(text), _digest(text), text[-END_CHARS:])

    @classmethod
    def from_json(cls, kept: JsonValue) -> Prefix | None:
        """Return the prefix that was kept as a list of its fields; None for anything else."""
        match kept:
            case [int(length), str(digest), str(end)]:
                return cls(length, digest, end)
            case _:
                return None

    def begins(self, text: str) -> bool:
        """Whether ``text`` begins with it."""
        if len(text) < self.length or not text.endswith(self.end, 0, self.length):
            return False
        return _digest(text[: self.length]) == self.digest

    def half_word(self, branch: str) -> str:
        """Return the letters at its end that ``branch`` goes on with; empty if that begins a word."""
        goes_on = _GOES_ON.match(branch) is not None and not CHARACTER.match(branch)
        return _last_word(self.end) if goes_on else ""

    def join(self, text: str, branch: str) -> str:
        """Return ``branch`` as it follows ``text``, which may differ from this prefix at its end.

        A branch may begin inside the last word of the prefix, or need a space there. If ``text`` lacks them,
        they are inserted; no letter of either text is changed.
        """
        inside = self.half_word(branch)
        same = _last_word(text) == inside if inside else text[-1:] == self.end[-1:]
        if not branch or not text or same:
            return branch
        whole = inside + branch
        if text[-1].isspace():
            return whole.lstrip(" ")
        parted = whole[0].isspace() or CHARACTER.match(text[-1]) or CHARACTER.match(whole)
        if parted or _OPENED.search(text) or not (whole[0].isalnum() or _OPENING.match(whole)):
            return whole
        before = self.end.removesuffix(_last_word(self.end))
        return (before[len(before.rstrip()) :] or " ") + whole


def in_whole_words(story: Story, node: Node) -> str:
    """Return the text of ``node``, with the letters before it that its first word goes on with."""
    end = story.text(node.parent)[-END_CHARS:] if node.parent is not None else ""
    return Prefix(0, "", end).half_word(node.text) + node.text


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _last_word(text: str) -> str:
    """Return the letters at the end of ``text``; none in a script without spaces between words."""
    start = len(text)
    while start and text[start - 1].isalnum() and not CHARACTER.match(text[start - 1]):
        start -= 1
    return text[start:]
