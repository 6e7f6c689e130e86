"""Names for the lorebook: entries that the model writes from the story, and names that have none yet."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from srbwriter.engine.types import Request, Stop
from srbwriter.prose import sentence_ends
from srbwriter.story.model import LoreEntry

from .describing import description_request

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend

LAST_CHARACTERS = 6_000  # of the story, about three pages, in which new names are looked for
OFTEN = 3  # how often a name stands there before it is offered
MOST_CHARACTERS = 60  # of a selection that may be a name
_PASSAGES = 12
_ASK = (
    "Here are passages from a story.\n\n{passages}\n\nSay in two sentences who or what {name} is in it. "
    "Answer with the two sentences alone."
)
_EXAMPLE = """\
From a story: Ellen rowed out before it was light. Nobody had answered the horn. She lit the lamp herself.
Notes on Ellen: Ellen is the lighthouse keeper's niece, who rows out to the tower by herself. She is brave, \
and she knows how to light the lamp.

From a story: {passages}
Notes on {name}:"""
_NAME = re.compile(r"[^\W\d_a-z][\w’'-]+(?: [^\W\d_a-z][\w’'-]+)*")
_PLAIN = frozenset(
    "I I'm I'd I'll I've I’m I’d I’ll I’ve Mr Mrs Ms Miss Dr Sir God Lord Lady Monday Tuesday Wednesday "
    "Thursday Friday Saturday Sunday January February March April May June July August September October "
    "November December English French German Chapter".split()
)


def passages_about(name: str, text: str) -> str:
    """Return the sentences of ``text`` that contain ``name``, the first and the last of them."""
    ends = sentence_ends(text)
    word = re.compile(rf"\b{re.escape(name)}\b", re.IGNORECASE)
    found = [text[a:b].strip() for a, b in zip([0, *ends], ends, strict=False) if word.search(text, a, b)]
    if len(found) > _PASSAGES:
        found = found[: _PASSAGES // 2] + found[-_PASSAGES // 2 :]
    return " ".join(" ".join(found).split())


def entry_request(engine: Backend, name: str, text: str, *, instruct: bool) -> Request:
    """Return the request for two sentences about ``name`` from the passages of ``text`` that contain it."""
    passages = engine.detokenize(engine.tokenize(passages_about(name, text))[: engine.n_ctx // 2])
    stop = Stop(max_tokens=110, min_tokens=8, strings=("\n",))
    question, example = (form.format(passages=passages, name=name) for form in (_ASK, _EXAMPLE))
    return description_request(engine, question, example, stop, instruct=instruct)


def new_entry(name: str, text: str = "") -> LoreEntry:
    """Return an entry for ``name``, which is also its key."""
    return LoreEntry(id=uuid.uuid4().hex, name=name, keys=[name], text=text)


def unknown_names(text: str, lore: Iterable[LoreEntry]) -> list[str]:
    """Return names in the last pages of ``text`` that no entry knows, the commonest first.

    A name is a word with a capital that stands inside sentences, too, and never without it.
    """
    end = text[-LAST_CHARACTERS:]
    known = {word.casefold() for entry in lore for key in (entry.name, *entry.keys) for word in key.split()}
    begins = {0, *sentence_ends(end)}
    counts, inside = Counter[str](), set[str]()
    for match in _NAME.finditer(end):
        name = match.group().removesuffix("'s").removesuffix("’s")
        before = end[: match.start()].rstrip(" ")
        begun = len(before) in begins or before[-1:] in "\"“‘'—\n"
        if begun and " " in name:  # "Then Mara"
            name, begun = name.partition(" ")[2], False
        counts[name] += 1
        if not begun:
            inside.add(name)
    lower = set(re.findall(r"\b[a-z][\w’'-]+", end))
    return [
        name
        for name, count in counts.most_common()
        if count >= OFTEN and name in inside and not _PLAIN & set(name.split())
        and name.lower() not in lower and not known & {word.casefold() for word in name.split()}
    ]  # fmt: skip
