"""KoboldAI saves of the first kind and Kobold Lite: a prompt and a list of actions, with other takes.

Also the old share file, whose keys are shortened.
"""

from __future__ import annotations

from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import with_foreign, without_secrets
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import Document
from srbwriter.story.formats.kobold_text import NOTE_PLACE, Place, Shown, Tree, note_text, saved_settings
from srbwriter.story.formats.worldentry import kobold_entry
from srbwriter.story.model import JsonObject, LoreEntry, Settings, StoryDraft, as_list, foreign, keep_foreign

NAME = "kobold"

_SAVE_KEYS = {"gamestarted", "actions_metadata", "authorsnote", "anotetemplate", "altbranches"}
_SHARE_KEYS = {"gs", "ga", "cm", "ca", "ct", "cwi", "ess"}
_ENOUGH = 4
"""So many keys of a share file are its own even without a list of chunks."""


def matches(document: Document) -> bool:
    return _is_save(document) or _is_share(document)


def _is_save(document: Document) -> bool:
    own = _SAVE_KEYS & document.keys
    if isinstance(document.object.get("actions"), list):
        return bool(own)
    return "actions" in document.keys and "prompt" in document.keys and len(own) > 1


def _is_share(document: Document) -> bool:
    own = _SHARE_KEYS & document.keys
    return isinstance(document.object.get("ga"), list) and len(own) > 1 or len(own) >= _ENOUGH


def read(document: Document) -> StoryDraft:
    whole = top(document)
    shown = Shown(saved_settings(document.object))
    if _is_save(document):
        return _read_save(whole, shown)
    tree = Tree(shown, NAME)
    place = tree.start
    for chunk in whole.good_texts("ga"):
        place = tree.grow(place, chunk)
    draft = tree.draft(place)
    draft.root.settings, kept = _settings(whole, shown, memory="cm", note="ca", template="ct", world="cwi")
    _keep(draft, {**whole.rest(), **kept})
    return draft


def _read_save(whole: Cursor, shown: Shown) -> StoryDraft:
    tree = Tree(shown, NAME)
    active = [whole.good_text("prompt"), *whole.good_texts("actions")]
    way = [tree.start]
    for branch in _branches(whole, active):
        place = tree.start
        for chunk in branch:
            place = tree.grow(place, chunk)
            if branch is active:
                way.append(place)
    takes = _add_other_takes(tree, whole, active, way)
    draft = tree.draft(way[-1])
    draft.root.settings, kept = _settings(whole, shown)
    rest = without_secrets({**whole.rest(), **kept}, whole)
    if takes:
        rest["actions_metadata"] = takes
    _keep(draft, rest)
    return draft


def _keep(draft: StoryDraft, rest: JsonObject) -> None:
    keep_foreign(draft.meta, NAME, {**foreign(draft.meta, NAME), **rest})


def _branches(whole: Cursor, active: list[str]) -> list[list[str]]:
    """Lite's branches in their order, of which ``null`` stands for the active one; else only that."""
    values = whole.peek("altbranches")
    if not isinstance(values, list):
        if values is not None:
            whole.tell("left out; expected a list", "altbranches")
        return [active]
    whole.skip("altbranches")
    branches: list[list[str]] = []
    for index, value in enumerate(as_list(values)):
        place = f"altbranches[{index}]"
        if value is None:
            branches.append(active)
        elif isinstance(value, list):
            branch = Cursor({place: value}, whole.file, above=whole).good_texts(place)
            branches.append(branch)
        else:
            whole.tell("left out; expected a list of texts, or null", place, value)
    return branches if any(branch is active for branch in branches) else [active, *branches]


def _add_other_takes(tree: Tree, whole: Cursor, active: list[str], way: list[Place]) -> JsonObject:
    """``Alternative Text`` of an action: siblings of that action.

    Returns what there is to keep: of each action what is neither its text nor a take.
    """
    kept: JsonObject = {}
    for key, about in whole.good_entries("actions_metadata"):
        index = int(key) + 1 if key.isdecimal() and len(key) < len(str(len(active))) + 1 else 0
        if not 0 < index < len(active):
            kept[key] = about.all()
            continue
        if about.peek("Selected Text") in ("", active[index]):  # Lite leaves it empty
            about.skip("Selected Text")
        takes = about.raw("Alternative Text")
        unread = [take for take in as_list(takes) if not _add_take(tree, way[index], take)]
        if unread or not isinstance(takes, list | None):
            about.tell("left out; expected texts, or objects with one", "Alternative Text", unread or takes)
        if rest := about.rest():
            kept[key] = rest
    return kept


def _add_take(tree: Tree, place: Place, take: object) -> bool:
    """Add one take of the action after ``place``; False if it has no text."""
    if isinstance(take, str):
        tree.grow(place, take)
        return True
    if not isinstance(take, dict):
        return False
    about = Cursor(take, "")
    text = about.text("Text")
    node = tree.first_of(place, text)
    if node is not None:
        node.mark(bookmark=node.marks.bookmark or about.flag("Pinned"))
        with_foreign(node, NAME, {**foreign(node.meta, NAME), **about.rest()})
    return node is not None


def _settings(
    whole: Cursor,
    shown: Shown,
    memory: str = "memory",
    note: str = "authorsnote",
    template: str = "anotetemplate",
    world: str = "worldinfo",
) -> tuple[Settings, JsonObject]:
    """The settings, and the fields to keep: those that are not shown as they are, or not used."""
    kept: JsonObject = {}
    plain: dict[str, str] = {}
    for key in (memory, note, template):
        text = whole.text(key)
        plain[key] = shown.plain(text)
        if plain[key] != text:
            kept[key] = text
    if not plain[note] or NOTE_PLACE not in plain[template]:
        kept[template] = whole.peek(template)
    lore, empty = _lore(whole, world, shown)
    if empty:
        kept[world] = empty
    settings = Settings(
        memory=plain[memory] or None, author_note=note_text(plain[note], plain[template]), lore=lore
    )
    return settings, {key: value for key, value in kept.items() if value}


def _lore(whole: Cursor, key: str, shown: Shown) -> tuple[list[LoreEntry], list[JsonObject]]:
    """The entries, and those with nothing in them: Kobold keeps one at the end of every folder."""
    entries: list[LoreEntry] = []
    empty: list[JsonObject] = []
    for index, cursor in enumerate(whole.good_objects(key)):
        entry = kobold_entry(cursor, f"kobold-{index}")
        if not entry.text and not entry.keys:
            empty.append(cursor.all())
            continue
        entry.text, raw = shown.plain(entry.text), entry.text
        if entry.text != raw:
            keep_foreign(entry.meta, NAME, {**foreign(entry.meta, NAME), "content": raw})
        entries.append(entry)
    return entries, empty


FORMAT = Format(NAME, "KoboldAI save, Kobold Lite", ".json", matches, read)
