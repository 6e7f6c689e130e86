"""The text of Kobold's saves as it is shown there: without pictures, and with turns instead of their marks.

Kobold Lite writes ``{{[INPUT]}}`` and ``{{[OUTPUT]}}`` where a person's and the model's turn begin, each on a
line of its own, and puts the tags of an instruction format there only when it sends a prompt.  A save made in
instruct mode may have those tags in its text as well; they are in its settings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from srbwriter.story.formats.build import Grower, with_foreign
from srbwriter.story.model import Author, DraftNode, JsonObject, StoryDraft, as_list, as_object, foreign

BETWEEN = "\n\n"
"""What separates turns in prose."""

NOTE_PLACE = "<|>"
"""Where the author's note stands in its template."""

_PICTURE = re.compile(r"\[?<\|([phd])\|.+?\|\1\|>\]?", re.DOTALL)
_PLACEHOLDER = r"\n?\{\{\[(?P<mark>INPUT|OUTPUT|SYSTEM)(?P<end>_END)?\]\}\}\n?"
_SPEAKERS: dict[str, Author] = {"INPUT": "writer", "OUTPUT": "model", "SYSTEM": "writer"}
_TAGS = {"instruct_starttag": "INPUT", "instruct_endtag": "OUTPUT", "instruct_systag": "SYSTEM"}
_TAGS_END = ("instruct_starttag_end", "instruct_endtag_end", "instruct_systag_end")
_INSTRUCT_MODE = 4


@dataclass(frozen=True, slots=True)
class Turn:
    """A piece of text by one speaker; ``begins`` if it begins a turn, and does not go on with one.

    ``speaker`` is ``None`` for text before any mark.
    """

    text: str
    speaker: Author | None
    begins: bool


class Shown:
    """How one save is shown; ``settings`` are its ``savedsettings``, empty if it has none.

    >>> Shown({}).plain("\\n{{[INPUT]}}\\nA storm.\\n{{[OUTPUT]}}\\nIt came.")
    'A storm.\\n\\nIt came.'
    """

    def __init__(self, settings: JsonObject) -> None:
        self._tags: dict[str, str] = {}
        patterns = [_PLACEHOLDER]
        if settings.get("opmode") == _INSTRUCT_MODE:
            for key in (*_TAGS, *_TAGS_END):
                tag = str(settings.get(key) or "").replace("\\n", "\n").strip()
                if tag and not re.fullmatch(_PLACEHOLDER, tag):
                    self._tags.setdefault(tag, _TAGS.get(key, ""))
            longest_first = sorted(self._tags, key=len, reverse=True)
            patterns += [rf"\n{{0,3}}{re.escape(tag)}\n{{0,3}}" for tag in longest_first]
        self._marks = re.compile("|".join(patterns))
        self._names = _names(settings)

    def turns(self, text: str, speaker: Author | None, begins: bool) -> list[Turn]:
        """The text in turns, the first of which goes on with ``speaker`` unless the text begins with a mark.

        The last has no text where the text ends with a mark: who goes on from there begins a turn.
        """
        text = self._named(strip_pictures(text))
        found: list[Turn] = []
        start = 0
        for match in self._marks.finditer(text):
            found.append(Turn(text[start : match.start()], speaker, begins))
            begins = begins and not found[-1].text
            mark = match["mark"] if match["mark"] else self._tags[match.group().strip()]
            if mark and not match["end"]:
                speaker, begins = _SPEAKERS[mark], True
            start = match.end()
        return [turn for turn in found if turn.text] + [Turn(text[start:], speaker, begins)]

    def plain(self, text: str) -> str:
        """The text with blank lines between its turns, for what is not part of the tree."""
        shown = ""
        for turn in self.turns(text, None, False):
            shown += apart(shown, turn.text) if turn.begins and turn.text else turn.text
        return shown

    def _named(self, text: str) -> str:
        for pattern, name in self._names.items():
            text = pattern.sub(lambda _, name=name: name, text)
        return text


def _names(settings: JsonObject) -> dict[re.Pattern[str], str]:
    """Whose names stand for ``{{user}}`` and ``{{char}}``; nobody's in a save without settings."""
    if settings.get("placeholder_tags") is False:
        return {}
    found: dict[re.Pattern[str], str] = {}
    for macro, key in (("{{user}}", "chatname"), ("{{char}}", "chatopponent")):
        name = settings.get(key)
        if isinstance(name, str) and name:
            first = name.split("||$||")[0]  # of several in a chat
            found[re.compile(re.escape(macro), re.IGNORECASE)] = first
    return found


def strip_pictures(text: str) -> str:
    """Text without the tags that stand for pictures, or hold them."""
    return _PICTURE.sub("", text)


def apart(before: str, text: str) -> str:
    """The text with as many line breaks in front as make a blank line after ``before``."""
    if not before:
        return text
    there = len(before) - len(before.rstrip("\n")) + len(text) - len(text.lstrip("\n"))
    return BETWEEN[: max(len(BETWEEN) - there, 0)] + text


@dataclass(slots=True)
class Place:
    """Where a story goes on: after ``node``, whose text is ``speaker``'s."""

    node: DraftNode
    speaker: Author | None = None
    begins: bool = False


class Tree:
    """Branches of chunks, laid over one another as far as their chunks agree.

    A chunk becomes a node for each of its turns.  One that does not look the same there is kept as it is.
    """

    def __init__(self, shown: Shown, name: str) -> None:
        self._shown = shown
        self._name = name
        self._grower = Grower()
        self._after: dict[tuple[int, str], Place] = {}
        self._above: dict[str, DraftNode] = {}
        self.start = Place(self._grower.root)

    def grow(self, place: Place, chunk: str) -> Place:
        """The place after ``chunk``; the same for the same chunk at the same place."""
        step = (id(place), chunk)
        if step not in self._after:
            self._after[step] = self._grow(place, chunk) if chunk else place
        return self._after[step]

    def first_of(self, place: Place, chunk: str) -> DraftNode | None:
        """The first node that ``chunk`` became after ``place``; ``None`` if it shows nothing."""
        here: DraftNode | None = self.grow(place, chunk).node
        while here is not None and here.parent_id != place.node.id:
            here = self._above.get(here.id)
        return here

    def draft(self, place: Place, title: str = "") -> StoryDraft:
        return self._grower.draft(place.node, title)

    def _grow(self, place: Place, chunk: str) -> Place:
        turns = self._shown.turns(chunk, place.speaker, place.begins)
        here, first = place.node, None
        for turn in turns:
            if turn.text:
                text = apart(here.text, turn.text) if turn.begins else turn.text
                node = self._grower.add(here, DraftNode("", text=text, author=turn.speaker or "imported"))
                self._above[node.id] = here
                here = node
                first = first or here
        begins = turns[-1].begins and not turns[-1].text
        if first is None:
            self._keep_unseen(here, chunk)
        elif len(turns) > 1 or first.text != chunk:
            with_foreign(first, self._name, {**foreign(first.meta, self._name), "text": chunk})
        return Place(here, turns[-1].speaker, begins)

    def _keep_unseen(self, node: DraftNode, chunk: str) -> None:
        """A chunk that shows nothing is kept with the node before it."""
        kept = foreign(node.meta, self._name)
        with_foreign(node, self._name, {**kept, "unseen": [*as_list(kept.get("unseen")), chunk]})


def saved_settings(fields: JsonObject) -> JsonObject:
    """The settings that are in a save; empty if there are none."""
    return as_object(fields.get("savedsettings"))


def note_text(note: str, template: str) -> str | None:
    """The author's note inside its template, which marks the place with ``<|>``."""
    if not note:
        return None
    return template.replace(NOTE_PLACE, note) if NOTE_PLACE in template else note
