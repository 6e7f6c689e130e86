"""KoboldAI saves of the first kind and Kobold Lite: a prompt and a list of actions, with other takes.

Also the old share file, whose keys are shortened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from srbwriter.story.draft import DraftNode, LoreEntry, Marks, Settings, StoryDraft, keep_foreign
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Grower, with_foreign
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import Document
from srbwriter.story.formats.worldentry import kobold_entry

NAME = "kobold"

_IMAGE = re.compile(r"\[<\|([ph])\|.*?\|\1\|>\]", re.DOTALL)
NOTE_PLACE = "<|>"


def matches(document: Document) -> bool:
    return _is_save(document) or _is_share(document)


def _is_save(document: Document) -> bool:
    fields = document.object
    kobold_keys = {"gamestarted", "actions_metadata", "authorsnote", "anotetemplate", "altbranches"}
    return (
        isinstance(fields.get("actions"), list)
        and isinstance(fields.get("prompt"), str)
        and bool(kobold_keys & document.keys)
    )


def _is_share(document: Document) -> bool:
    return isinstance(document.object.get("ga"), list) and bool({"cm", "ca", "ct", "cwi"} & document.keys)


def read(document: Document) -> StoryDraft:
    whole = top(document)
    if _is_share(document):
        chunks = whole.need_texts("ga")
        settings = _settings(whole, memory="cm", note="ca", template="ct", world="cwi")
        draft = _tree([chunks], chunks)
    else:
        chunks = [whole.need_text("prompt"), *whole.need_texts("actions")]
        settings = _settings(whole)
        draft = _tree([chunks, *_other_branches(whole)], chunks)
        _add_other_takes(draft, whole)
    draft.root.settings = settings
    keep_foreign(draft.meta, NAME, whole.rest())
    return draft


def _tree(branches: Sequence[Sequence[str]], active: Sequence[str]) -> StoryDraft:
    """Branches laid over one another as far as their chunks agree."""
    grower = Grower()
    known: dict[tuple[str, str], DraftNode] = {}
    ends: list[DraftNode] = []
    for branch in branches:
        here = grower.root
        for chunk in branch:
            text = strip_images(chunk)
            if not text:
                continue
            step = (here.id, text)
            if step not in known:
                known[step] = grower.add(here, DraftNode("", text=text))
            here = known[step]
        ends.append(here)
    return grower.draft(ends[branches.index(active)])


def _other_branches(whole: Cursor) -> list[list[str]]:
    """Lite's other branches; ``null`` stands for the active one."""
    branches = whole.raw("altbranches")
    if branches is None:
        return []
    if not isinstance(branches, list):
        raise whole.error("a list", "altbranches")
    found: list[list[str]] = []
    for index, branch in enumerate(cast(list[Any], branches)):
        if branch is None:
            continue
        if not _are_texts(branch):
            raise whole.error("a list of texts, or null", f"altbranches[{index}]")
        found.append(branch)
    return found


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast(list[Any], value))


def _add_other_takes(draft: StoryDraft, whole: Cursor) -> None:
    """``Alternative Text`` of an action: siblings of that action."""
    actions = whole.peek("actions")
    steps = [strip_images(text) for text in [whole.peek("prompt"), *actions]]
    path = _path_of_steps(draft, steps)
    grower = _Regrow(draft)
    for key, cursor in whole.entries("actions_metadata"):
        index = int(key) + 1 if key.isdecimal() else -1
        if not 0 < index < len(path):
            continue
        cursor.skip("Selected Text")
        for take in _takes(cursor):
            grower.add_beside(path[index], take)


def _path_of_steps(draft: StoryDraft, steps: list[str]) -> list[DraftNode | None]:
    """The node of each step of the active branch; ``None`` for steps without text."""
    nodes = {node.id: node for node in draft.nodes}
    path: list[DraftNode] = []
    node_id: str | None = draft.current_id
    while node_id is not None and node_id != draft.root.id:
        path.append(nodes[node_id])
        node_id = nodes[node_id].parent_id
    return [path.pop() if step and path else None for step in steps]


def _takes(cursor: Cursor) -> list[DraftNode]:
    values = cursor.raw("Alternative Text")
    if values is None:
        return []
    if not isinstance(values, list):
        raise cursor.error("a list", "Alternative Text")
    return [_take(cursor, index, value) for index, value in enumerate(cast(list[Any], values))]


def _take(cursor: Cursor, index: int, value: Any) -> DraftNode:
    if isinstance(value, str):
        return DraftNode("", text=strip_images(value))
    inner = Cursor(value, cursor.file, f"Alternative Text[{index}]", cursor)
    text = strip_images(inner.need_text("Text"))
    node = DraftNode("", text=text, marks=Marks(bookmark=inner.flag("Pinned"), visited=True))
    return with_foreign(node, NAME, inner.rest())


class _Regrow:
    """Adds siblings to a finished draft."""

    def __init__(self, draft: StoryDraft) -> None:
        self._draft = draft
        self._texts: dict[str, set[str]] = {}
        for node in draft.nodes:
            self._texts.setdefault(node.parent_id or "", set()).add(node.text)

    def add_beside(self, node: DraftNode | None, take: DraftNode) -> None:
        if node is None or node.parent_id is None or not take.text:
            return
        siblings = self._texts[node.parent_id]
        if take.text in siblings:
            return
        siblings.add(take.text)
        take.id, take.parent_id, take.order = f"n{len(self._draft.nodes)}", node.parent_id, len(siblings)
        self._draft.nodes.append(take)


def _settings(
    whole: Cursor,
    memory: str = "memory",
    note: str = "authorsnote",
    template: str = "anotetemplate",
    world: str = "worldinfo",
) -> Settings:
    return Settings(
        memory=whole.text(memory) or None,
        author_note=note_text(whole.text(note), whole.text(template)),
        lore=_lore(whole, world),
    )


def _lore(whole: Cursor, key: str) -> list[LoreEntry]:
    """Entries with something in them; Kobold keeps an empty one at the end of every folder."""
    cursors = [cursor for cursor in whole.objects(key) if isinstance(cursor.peek("content"), str)]
    entries = [kobold_entry(cursor, f"kobold-{index}") for index, cursor in enumerate(cursors)]
    return [entry for entry in entries if entry.text or entry.keys]


def note_text(note: str, template: str) -> str | None:
    """The author's note inside its template, which marks the place with ``<|>``."""
    if not note:
        return None
    return template.replace(NOTE_PLACE, note) if NOTE_PLACE in template else note


def strip_images(text: str) -> str:
    """Text without the tags that stand for pictures."""
    return _IMAGE.sub("", text)


FORMAT = Format(NAME, "KoboldAI save, Kobold Lite", ".json", matches, read)
