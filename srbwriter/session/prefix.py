"""The text before branches when they were requested, to find out whether the story still begins with it.

Only a digest and the last characters are kept, because a whole book may precede each of many rounds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from srbwriter.story import NodeId, Story
from srbwriter.story.model import as_list
from srbwriter.unspaced import CHARACTER

KEPT = "written for"
"""The story value with the prefixes of the last rounds: a list of [first node, last node, *Prefix]."""

_MOST_KEPT = 64
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

    def begins(self, text: str) -> bool:
        """Whether ``text`` begins with it."""
        if len(text) < self.length or not text.endswith(self.end, 0, self.length):
            return False
        return _digest(text[: self.length]) == self.digest

    def join(self, text: str, branch: str) -> str:
        """Return ``branch`` as it follows ``text``, which may differ from this prefix at its end.

        A branch may begin inside the last word of the prefix, or need a space there. If ``text`` lacks them,
        they are inserted; no letter of either text is changed.
        """
        word = _last_word(self.end)
        inside = bool(word) and _GOES_ON.match(branch) is not None and not CHARACTER.match(branch)
        if not branch or not text or (_last_word(text) == word if inside else text[-1] == self.end[-1:]):
            return branch
        whole = word + branch if inside else branch
        if text[-1].isspace():
            return whole.lstrip(" ")
        parted = whole[0].isspace() or CHARACTER.match(text[-1]) or CHARACTER.match(whole)
        if parted or _OPENED.search(text) or not (whole[0].isalnum() or _OPENING.match(whole)):
            return whole
        before = self.end.removesuffix(word)
        return (before[len(before.rstrip()) :] or " ") + whole


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _last_word(text: str) -> str:
    """Return the letters at the end of ``text``; none in a script without spaces between words."""
    start = len(text)
    while start and text[start - 1].isalnum() and not CHARACTER.match(text[start - 1]):
        start -= 1
    return text[start:]


def keep_prefix(story: Story, nodes: Sequence[NodeId], prefix: Prefix) -> None:
    """Store ``prefix`` in the story for the branches that begin in ``nodes``."""
    kept = list(as_list(story.value(KEPT)))
    first = min(nodes)
    if kept and tuple(as_list(kept[-1])[2:]) == prefix:  # more branches of the same round
        first = as_list(kept.pop())[0]
    story.put_value(KEPT, [*kept, [first, max(nodes), *prefix]][-_MOST_KEPT:])


def kept_prefixes(story: Story, nodes: Sequence[NodeId]) -> dict[NodeId, Prefix]:
    """Return the stored prefixes of ``nodes``."""
    found: dict[NodeId, Prefix] = {}
    for entry in as_list(story.value(KEPT)):
        match entry:
            case [int(first), int(last), int(length), str(digest), str(end)]:
                prefix = Prefix(length, digest, end)
                found.update({node: prefix for node in nodes if first <= node <= last})
            case _:
                continue
    return found
