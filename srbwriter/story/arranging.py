"""Change the tree, and the marks and settings of its nodes, as parts of an action.

No text is ever dropped: deleted nodes are in the bin, and redo restores undone ones. These functions do not
check whether a change is allowed; their callers do.
"""

from __future__ import annotations

from dataclasses import replace

from srbwriter.story.document import Document
from srbwriter.story.history import Action, SetEntry, SetSettings, Split
from srbwriter.story.languages import default_language, language_tag
from srbwriter.story.model import (
    ROOT,
    JsonObject,
    JsonValue,
    Marks,
    NodeId,
    Properties,
    Refused,
    State,
    settings_from,
    settings_text,
)
from srbwriter.story.tree import VISITED


def set_entry(document: Document, action: Action, node: NodeId, **after: JsonValue) -> None:
    """Set fields of the index entry of ``node``."""
    action.run(document, SetEntry.of(document.tree[node], **after))


def set_marks(document: Document, action: Action, node: NodeId, marks: Marks) -> None:
    """Set the marks of ``node``."""
    if after := changed_fields(document, node, marks):
        set_entry(document, action, node, **after)


def changed_fields(document: Document, node: NodeId, marks: Marks) -> JsonObject:
    """Return the fields of the index entry that change if ``node`` gets ``marks``."""
    before = document.tree[node]
    after = before.with_marks(marks)._asdict()
    return {name: value for name, value in after.items() if value != getattr(before, name)}


def set_visited(document: Document, node: NodeId, visited: bool) -> None:
    """Mark ``node`` read or unread. This is not undoable, so it belongs to no action."""
    flags = document.tree[node].flags & ~VISITED
    document.tree.set(node, flags=flags | (VISITED if visited else 0))


def take_out_of_bin(document: Document, action: Action, node: NodeId) -> None:
    """Make ``node`` and its ancestors part of the readable tree."""
    for above in list(document.tree.upward(node)):
        if document.tree[above].state != State.LIVING:
            set_entry(document, action, above, state=State.LIVING)


def merge(document: Document, action: Action, parent: NodeId, node: NodeId) -> None:
    """Join ``node`` to ``parent``, which gets the marks and the settings of both."""
    upper, lower = document.tree[parent], document.tree[node]
    _settings_down(document, action, parent, node)
    action.run(document, Split(parent, upper.chars, rest=node, joining=True))
    set_marks(document, action, parent, _together(upper.marks, lower.marks))
    if upper.author != lower.author:
        set_entry(document, action, parent, author="edited")


def _settings_down(document: Document, action: Action, parent: NodeId, node: NodeId) -> None:
    """Merge the settings of ``node`` into ``parent``, so that those in force below stay the same."""
    upper, lower = document.body(parent).settings, document.body(node).settings
    if lower:
        both = settings_from(lower).inherit(settings_from(upper))
        action.run(document, SetSettings(parent, upper, settings_text(both)))


def _together(upper: Marks, lower: Marks) -> Marks:
    return Marks(
        bookmark=upper.bookmark or lower.bookmark,
        tags=tuple(dict.fromkeys((*upper.tags, *lower.tags))),
        note="\n".join(note for note in (upper.note, lower.note) if note),
        chapter=upper.chapter or lower.chapter,
        title=upper.title or lower.title,
        visited=upper.visited,
    )


def reorder(document: Document, action: Action, node: NodeId, index: int) -> None:
    """Move ``node`` to position ``index`` (from 0) among its living siblings."""
    tree = document.tree
    parent = tree.parent(node) or ROOT
    living = [sibling for sibling in tree.children(parent) if sibling != node]
    index = max(0, min(index, len(living)))
    order = [sibling for sibling in tree.all_children(parent) if sibling != node]
    order.insert(order.index(living[index]) if index < len(living) else len(order), node)
    for place, sibling in enumerate(order):
        if tree[sibling].place != place:
            set_entry(document, action, sibling, place=place)


def checked_properties(given: Properties, before: Properties) -> Properties:
    """Return ``given`` with clean titles and a language tag; an empty language is that of the locale.

    Raises Refused for an empty title, and for a language that has no BCP 47 tag, unless it is the language of
    ``before``.
    """
    title, author = (" ".join(words.split()) for words in (given.title, given.author))
    if not title:
        raise Refused("a story needs a title, and this one has no letter in it")
    wanted = given.language.strip()
    language = language_tag(wanted) if wanted else default_language()
    if language is None and wanted == before.language:
        language = wanted
    if language is None:
        raise Refused(f"{wanted} is no language tag; one is written en, de or pt-BR")
    return replace(given, title=title, author=author, language=language)
