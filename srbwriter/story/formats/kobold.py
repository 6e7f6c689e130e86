"""KoboldAI saves of the first kind and Kobold Lite: actions, with other takes.

The text is read as it is shown there: without pictures,
and with turns instead of marks. Kobold Lite writes ``{{[INPUT]}}`` and ``{{[OUTPUT]}}`` where a person's
and the model's turn begin, each on a line of its own, and puts the tags of an instruction format there only
when it sends a prompt. A save made in instruct mode may have those tags in its text as well; they are in its
settings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import Grower
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.lore import kobold_entry
from srbwriter.story.model import (
    Author,
    DraftNode,
    JsonObject,
    LoreEntry,
    Settings,
    StoryDraft,
    as_list,
    as_object,
)

BETWEEN = "\n\n"
"""What separates turns in prose."""

NOTE_PLACE = "<|>"
"""The place of the author's note in its template."""

_PICTURE = re.compile(r"\[?<\|([phd])\|.+?\|\1\|>\]?", re.DOTALL)
_PLACEHOLDER = r"\n?\{\{\[(?P<mark>INPUT|OUTPUT|SYSTEM)(?P<end>_END)?\]\}\}\n?"
_SPEAKERS: dict[str, Author] = {"INPUT": "writer", "OUTPUT": "model", "SYSTEM": "writer"}
_TAGS = {"instruct_starttag": "INPUT", "instruct_endtag": "OUTPUT", "instruct_systag": "SYSTEM"}
_TAGS_END = ("instruct_starttag_end", "instruct_endtag_end", "instruct_systag_end")
_INSTRUCT_MODE = 4


@dataclass(frozen=True, slots=True)
class Turn:
    """A piece of text by one speaker; ``begins`` if it begins a turn instead of continuing one.

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
        """Split the text into turns; the first continues ``speaker``'s unless the text begins with a mark.

        Where the text ends with a mark, the last turn has no text: continuing there begins a turn.
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
        """Return the text with blank lines between its turns, for texts outside the tree."""
        shown = ""
        for turn in self.turns(text, None, False):
            shown += apart(shown, turn.text) if turn.begins and turn.text else turn.text
        return shown

    def _named(self, text: str) -> str:
        for pattern, name in self._names.items():
            text = pattern.sub(lambda _, name=name: name, text)
        return text


def _names(settings: JsonObject) -> dict[re.Pattern[str], str]:
    """Return the names for ``{{user}}`` and ``{{char}}``; empty in a save without settings."""
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
    """Return the text without tags of pictures."""
    return _PICTURE.sub("", text)


def apart(before: str, text: str) -> str:
    """The text with as many line breaks in front as make a blank line after ``before``."""
    if not before:
        return text
    there = len(before) - len(before.rstrip("\n")) + len(text) - len(text.lstrip("\n"))
    return BETWEEN[: max(len(BETWEEN) - there, 0)] + text


@dataclass(slots=True)
class Place:
    """The place where a story continues: after ``node``, whose text is ``speaker``'s."""

    node: DraftNode
    speaker: Author | None = None
    begins: bool = False


class Tree:
    """Branches of chunks, laid over one another as far as their chunks agree.

    A chunk becomes a node for each of its turns.
    """

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
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
        here = place.node
        for turn in turns:
            if turn.text:
                text = apart(here.text, turn.text) if turn.begins else turn.text
                node = self._grower.add(here, DraftNode("", text=text, author=turn.speaker or "imported"))
                self._above[node.id] = here
                here = node
        begins = turns[-1].begins and not turns[-1].text
        return Place(here, turns[-1].speaker, begins)


def saved_settings(fields: JsonObject) -> JsonObject:
    """The settings that are in a save; empty if there are none."""
    return as_object(fields.get("savedsettings"))


def note_text(note: str, template: str) -> str | None:
    """The author's note inside its template, which marks the place with ``<|>``."""
    if not note:
        return None
    return template.replace(NOTE_PLACE, note) if NOTE_PLACE in template else note


NAME = "kobold"

_SAVE_KEYS = {"gamestarted", "actions_metadata", "authorsnote", "anotetemplate", "altbranches"}


def matches(document: Document) -> bool:
    own = _SAVE_KEYS & document.keys
    if isinstance(document.object.get("actions"), list):
        return bool(own)
    return "actions" in document.keys and "prompt" in document.keys and len(own) > 1


def read(document: Document) -> StoryDraft:
    whole = top(document)
    shown = Shown(saved_settings(document.object))
    tree = Tree(shown)
    active = [whole.good_text("prompt"), *whole.good_texts("actions")]
    way = [tree.start]
    for branch in _branches(whole, active):
        place = tree.start
        for chunk in branch:
            place = tree.grow(place, chunk)
            if branch is active:
                way.append(place)
    _add_other_takes(tree, whole, active, way)
    draft = tree.draft(way[-1])
    draft.root.settings = _settings(whole, shown)
    return draft


def _branches(whole: Cursor, active: list[str]) -> list[list[str]]:
    """Return Lite's branches in order, with ``null`` for the active one; without branches, only that."""
    values = whole.raw("altbranches")
    if not isinstance(values, list):
        if values is not None:
            whole.add_notice("left out; expected a list", "altbranches")
        return [active]
    branches: list[list[str]] = []
    for index, value in enumerate(as_list(values)):
        place = f"altbranches[{index}]"
        if value is None:
            branches.append(active)
        elif isinstance(value, list):
            branch = Cursor({place: value}, whole.file, above=whole).good_texts(place)
            branches.append(branch)
        else:
            whole.add_notice("left out; expected a list of texts, or null", place)
    return branches if any(branch is active for branch in branches) else [active, *branches]


def _add_other_takes(tree: Tree, whole: Cursor, active: list[str], way: list[Place]) -> None:
    """``Alternative Text`` of an action: siblings of that action."""
    for key, about in whole.good_entries("actions_metadata"):
        index = int(key) + 1 if key.isdecimal() and len(key) < len(str(len(active))) + 1 else 0
        if not 0 < index < len(active):
            continue
        takes = about.raw("Alternative Text")
        if not isinstance(takes, list | None) or not all(
            [_add_take(tree, way[index], take) for take in as_list(takes)]
        ):
            about.add_notice("left out; expected texts, or objects with one", "Alternative Text")


def _add_take(tree: Tree, place: Place, take: object) -> bool:
    """Add one take of the action after ``place``; False if it has no text."""
    if isinstance(take, str):
        tree.grow(place, take)
        return True
    if not isinstance(take, dict):
        return False
    about = Cursor(take, "")
    node = tree.first_of(place, about.text("Text"))
    if node is not None:
        node.mark(bookmark=node.marks.bookmark or about.flag("Pinned"))
    return node is not None


def _settings(whole: Cursor, shown: Shown) -> Settings:
    note = shown.plain(whole.text("authorsnote"))
    return Settings(
        memory=shown.plain(whole.text("memory")) or None,
        author_note=note_text(note, shown.plain(whole.text("anotetemplate"))),
        lore=_lore(whole, shown),
    )


def _lore(whole: Cursor, shown: Shown) -> list[LoreEntry]:
    """The entries but those with nothing in them: Kobold keeps one at the end of every folder."""
    entries: list[LoreEntry] = []
    for index, cursor in enumerate(whole.good_objects("worldinfo")):
        entry = kobold_entry(cursor, f"kobold-{index}")
        entry.text = shown.plain(entry.text)
        if entry.text or entry.keys:
            entries.append(entry)
    return entries


FORMAT = Format(NAME, "KoboldAI save, Kobold Lite", ".json", matches, read)
