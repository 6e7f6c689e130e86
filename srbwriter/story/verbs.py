"""What a writer does to the tree, each verb one action that can be undone.

Functions on the desk and its history; the rules of a verb stand here and nowhere else. Typing has a
room of its own (:mod:`srbwriter.story.typewriter`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, cast

from srbwriter.story.changes import SetEntry, SetSettings, SetValue, Split
from srbwriter.story.desk import Desk
from srbwriter.story.draft import Author, JsonValue, LoreEntry, Settings, Template
from srbwriter.story.history import Action, History
from srbwriter.story.language import default_language, language_tag
from srbwriter.story.runs import Runs
from srbwriter.story.tree import VISITED
from srbwriter.story.types import ROOT, Marks, NodeId, NoSuchNode, Properties, Refused, State


def living(desk: Desk, node: NodeId) -> NodeId:
    """``node``, or NoSuchNode if it is not part of the readable tree."""
    kept(desk, node)
    if not desk.tree.living(node):
        raise NoSuchNode(node, "is below something in the bin")
    return node


def kept(desk: Desk, node: NodeId) -> NodeId:
    """``node``, or NoSuchNode if it is in the bin itself or has become part of another."""
    entry = desk.tree[node]
    if entry.state == State.BINNED:
        raise NoSuchNode(node, "is in the bin")
    if entry.state == State.ABSORBED:
        raise NoSuchNode(node, "is part of another node now")
    return node


def not_root(node: NodeId, verb: str) -> NodeId:
    if node == ROOT:
        raise Refused(f"the root of the story cannot be {verb}")
    return node


def created(action: Action, node: NodeId) -> None:
    """Undoing a creation puts the node into the bin: its words stay."""
    action.changes.append(SetEntry(node, {"state": State.BINNED}, {"state": State.LIVING}))


def add(
    desk: Desk, history: History, parent: NodeId, texts: Sequence[Runs], author: Author, *,
    instead_of: Sequence[NodeId] = (), stand: bool = False,
) -> list[NodeId]:
    """New children of ``parent``, one for each of ``texts``; see :meth:`Story.add`."""
    living(desk, parent)
    with history.action("add", parent) as action:
        made = [desk.add(parent, runs, author) for runs in texts]
        for node in made:
            created(action, node)
            if instead_of:
                desk.ledger.carry(desk.tree, instead_of, node)
            elif author == "model":
                desk.ledger.wait([node])
            elif author != "imported":
                desk.ledger.begin(node)
        if stand and made:
            action.became = made[-1]
    return made


def pick(desk: Desk, history: History, node: NodeId, at: int | None) -> NodeId:
    """Take ``node``, or its first ``at`` characters: it becomes the current node.

    What it hangs below comes out of the bin: a taken text is never cut off from its beginning.
    """
    kept(desk, node)
    with history.action("pick", node) as action:
        _out_of_bin(desk, action, node)
        length = desk.tree[node].chars  # in here, so that a stream's last words are counted
        if at is not None and not 0 < at <= length:
            raise Refused(f"node {node} has {length} characters, not {at}")
        if at is not None and at < length:
            action.run(desk, Split(node, at))
        desk.tree.put(desk.tree[node]._replace(flags=desk.tree[node].flags | VISITED))
        desk.ledger.join(desk.tree.upward(node))
        action.became = node
    return node


def split(desk: Desk, history: History, node: NodeId, at: int) -> NodeId:
    """The text from ``at`` on becomes a child, which takes all children along; returns it."""
    not_root(living(desk, node), "split")
    with history.action("split", node) as action:
        if not 0 < at < desk.tree[node].chars:
            raise Refused(f"node {node} cannot be split at character {at} of {desk.tree[node].chars}")
        step = Split(node, at)
        action.run(desk, step)
        if action.was == node:
            action.became = step.rest
    return step.rest


def merge(desk: Desk, history: History, node: NodeId) -> NodeId:
    """``node`` becomes part of its parent; what else hung below the parent keeps its text on a copy."""
    parent = desk.tree[not_root(living(desk, node), "merged")].parent
    if parent is None or parent == ROOT:
        raise Refused(f"node {node} has no parent with text to merge with")
    with history.action("merge", node) as action:
        upper, lower = desk.tree[parent], desk.tree[node]
        together = _together(upper.marks, lower.marks)
        _settings_down(desk, action, parent, node)
        action.run(desk, Split(parent, upper.chars, rest=node, joining=True))
        if together != upper.marks:
            _set_marks(desk, action, parent, together)
        if upper.author != lower.author:
            action.run(desk, SetEntry(parent, {"author": upper.author}, {"author": "edited"}))
        if desk.value("hoisted") == node:
            action.run(desk, SetValue("hoisted", node, parent))
        if action.was == node:
            action.became = parent
    return parent


def _together(upper: Marks, lower: Marks) -> Marks:
    return Marks(
        bookmark=upper.bookmark or lower.bookmark,
        tags=tuple(dict.fromkeys((*upper.tags, *lower.tags))),
        rating=upper.rating or lower.rating,
        note="\n".join(note for note in (upper.note, lower.note) if note),
        chapter=upper.chapter or lower.chapter,
        title=upper.title or lower.title,
    )


def _settings_down(desk: Desk, action: Action, parent: NodeId, node: NodeId) -> None:
    """The settings of both, so that what hangs below goes on under the same ones."""
    upper, lower = desk.body(parent).settings, desk.body(node).settings
    if lower:
        both = settings_from(lower).inherit(settings_from(upper)) if upper else settings_from(lower)
        action.run(desk, SetSettings(parent, upper, settings_text(both)))


def delete(desk: Desk, history: History, node: NodeId) -> None:
    """Into the bin, with everything below."""
    not_root(living(desk, node), "deleted")
    with history.action("delete", node) as action:
        if node in desk.tree.upward(action.was):
            action.became = desk.tree[node].parent or ROOT
        action.run(desk, SetEntry(node, {"state": State.LIVING}, {"state": State.BINNED}))


def restore(desk: Desk, history: History, node: NodeId) -> None:
    """Out of the bin, with whatever it hangs below."""
    if desk.tree[node].state == State.ABSORBED:
        living(desk, node)
    with history.action("restore", node) as action:
        _out_of_bin(desk, action, node)


def _out_of_bin(desk: Desk, action: Action, node: NodeId) -> None:
    for above in list(desk.tree.upward(node)):
        state = desk.tree[above].state
        if state != State.LIVING:
            action.run(desk, SetEntry(above, {"state": state}, {"state": State.LIVING}))


def duplicate(desk: Desk, history: History, node: NodeId, deep: bool) -> NodeId:
    """A copy beside ``node``; ``deep`` copies everything below as well."""
    parent = desk.tree[not_root(living(desk, node), "duplicated")].parent
    assert parent is not None  # only the root has none
    with history.action("duplicate", node) as action:
        copies = {parent: parent}
        for old in desk.tree.reading_order(node) if deep else [node]:
            copies[old] = _copy(desk, old, copies[desk.tree[old].parent or ROOT])
            created(action, copies[old])
    return copies[node]


def _copy(desk: Desk, old: NodeId, parent: NodeId) -> NodeId:
    entry, body = desk.tree[old], replace(desk.body(old), name=None)
    new = desk.add(parent, desk.runs(old), entry.author, place=entry.place, body=body)
    made = desk.tree[new]._replace(flags=entry.flags, created=entry.created)
    desk.tree.put(made.with_marks(entry.marks))
    desk.ledger.copy(old, new)
    return new


def reorder(desk: Desk, history: History, node: NodeId, index: int) -> None:
    """Make ``node`` the ``index``-th of its living siblings, counted from 0."""
    parent = desk.tree[not_root(living(desk, node), "moved")].parent
    assert parent is not None  # only the root has none
    living_ones = [s for s in desk.tree.children(parent) if s != node]
    index = max(0, min(index, len(living_ones)))
    order = [s for s in desk.tree.all_children(parent) if s != node]
    at = order.index(living_ones[index]) if index < len(living_ones) else len(order)
    order.insert(at, node)
    with history.action("reorder", node) as action:
        for place, sibling in enumerate(order):
            before = desk.tree[sibling].place
            if before != place:
                action.run(desk, SetEntry(sibling, {"place": before}, {"place": place}))


def mark(desk: Desk, history: History, node: NodeId, marks: Marks) -> None:
    """Hang ``marks`` on ``node`` in place of what was there."""
    living(desk, node)
    if marks == desk.tree[node].marks:
        return
    with history.action("mark", node) as action:
        _set_marks(desk, action, node, marks)


def _set_marks(desk: Desk, action: Action, node: NodeId, marks: Marks) -> None:
    if not -1 <= marks.rating <= 1:
        raise Refused(f"a rating is -1, 0 or 1, not {marks.rating}")
    if any("\n" in tag or not tag for tag in marks.tags):
        raise Refused("a tag is one line with something in it")
    old = desk.tree[node]
    new = old.with_marks(marks)
    names = [name for name in old._fields if getattr(old, name) != getattr(new, name)]
    before = {name: getattr(old, name) for name in names}
    after = {name: getattr(new, name) for name in names}
    action.run(desk, SetEntry(node, before, after))


def put_settings(desk: Desk, history: History, node: NodeId, settings: Settings) -> None:
    """What ``node`` says about everything below it."""
    before, after = desk.body(living(desk, node)).settings, settings_text(settings)
    if before != after:
        with history.action("settings", node) as action:
            action.run(desk, SetSettings(node, before, after))


def put_value(desk: Desk, history: History, verb: str, key: str, value: JsonValue) -> None:
    """A story-wide value, such as the title."""
    before = desk.value(key)
    if before != value:
        with history.action(verb, ROOT) as action:
            action.run(desk, SetValue(key, before, value))


def put_properties(desk: Desk, history: History, before: Properties, after: Properties) -> None:
    """Title, author and language, all in one action."""
    title, author = (" ".join(words.split()) for words in (after.title, after.author))
    if not title:
        raise Refused("a story needs a title, and this one has no letter in it")
    language = language_tag(after.language) if after.language.strip() else default_language()
    if language is None:
        raise Refused(f"{after.language.strip()} is no language; one is written en, de or pt-BR")
    pairs = {
        "title": (before.title, title),
        "author": (before.author, author),
        "language": (before.language, language),
    }
    changes = [SetValue(key, old, new) for key, (old, new) in pairs.items() if old != new]
    if changes:
        with history.action("properties", ROOT) as action:
            for change in changes:
                action.run(desk, change)


def settings_text(settings: Settings) -> str | None:
    """JSON of what ``settings`` say; None if they say nothing."""
    if settings == Settings():
        return None
    said = {key: value for key, value in asdict(settings).items() if value not in (None, [], {})}
    return json.dumps(said) if said else None


def settings_from(text: str | None) -> Settings:
    """The inverse of :func:`settings_text`."""
    fields = cast(dict[str, Any], json.loads(text) if text else {})
    fields["lore"] = [LoreEntry(**entry) for entry in cast(list[dict[str, Any]], fields.get("lore", []))]
    if fields.get("template"):
        fields["template"] = Template(**fields["template"])
    return Settings(**fields)
