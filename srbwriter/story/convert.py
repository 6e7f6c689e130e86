"""Conversion of an open story to a draft, and of a draft to a new story.

Every format reads and writes drafts; see :mod:`srbwriter.story.model`.
"""

from __future__ import annotations

import json
from dataclasses import astuple, replace
from typing import Any, cast

from srbwriter.story.document import Document
from srbwriter.story.languages import language_tag
from srbwriter.story.migrations import gaps_in
from srbwriter.story.model import (
    ROOT,
    DraftNode,
    Generation,
    JsonObject,
    Marks,
    Node,
    NodeId,
    OnProgress,
    Span,
    State,
    StoryDraft,
    no_progress,
    settings_from,
    settings_text,
)
from srbwriter.story.reader import Reader
from srbwriter.story.spans import fit, plain, tidy
from srbwriter.story.store import Body
from srbwriter.story.tree import SETTINGS, Entry
from srbwriter.story.words import well_formed

_STORY = ("created", "modified", "id")
_FACES = "x-"
"""Prefix of the names of values that interfaces store with a story."""
_AT_ONCE = 500
"""Nodes between two reports of progress."""


def to_draft(story: Reader, document: Document, progress: OnProgress = no_progress) -> StoryDraft:
    """Return everything but the undo history, and the nodes that only undo needs, as a draft."""
    order = _exported(document)
    places = _places(document, order)
    names = _names(document, order)
    nodes: list[DraftNode] = []
    for start in range(0, len(order), _AT_ONCE):
        progress(start / len(order))
        chunk = order[start : start + _AT_ONCE]
        bodies = document.some_bodies(chunk)
        nodes += [_draft_node(n, bodies[n.id], names, places[n.id]) for n in story.nodes(chunk)]
    fields = cast(dict[str, Any], document.value("draft", {}))
    properties = story.properties
    return StoryDraft(
        nodes,
        names.get(document.current, nodes[0].id),
        title=properties.title,
        byline=properties.author,
        language=properties.language,
        created=fields.get("created"),
        modified=fields.get("modified"),
        meta=fields.get("meta", {}),
        id=story.id,
        values=_values(document),
        days=story.days(),
    )


def _values(document: Document) -> JsonObject:
    """Return the values of interfaces, by their own names."""
    with document.store.reading() as db:
        rows = db.execute("SELECT key, json FROM value WHERE key GLOB ? ORDER BY key", (f"{_FACES}*",))
        return {key.removeprefix(_FACES): json.loads(text) for key, text in rows.fetchall()}


def _exported(document: Document) -> list[NodeId]:
    """Yield every node with a text of its own, parents first, without an empty root added by the import."""
    tree = document.tree
    order: list[NodeId] = []
    stack = [ROOT]
    while stack:
        node = stack.pop()
        below = tree.all_children(node)
        absorbed = tree[node].state == State.ABSORBED
        if absorbed and all(tree[child].state == State.ABSORBED for child in below):
            continue  # other absorbed nodes are the parents of binned ones
        order.append(node)
        stack.extend(reversed(below))
    tops = [node for node in order if tree[node].parent == ROOT]
    root = tree[ROOT]
    bare = replace(root.marks, visited=True) == Marks() and not root.flags & SETTINGS
    return order[1:] if document.value("own_root") and len(tops) == 1 and bare else order


def _names(document: Document, order: list[NodeId]) -> dict[NodeId, str]:
    """Return the exported id of every node: its imported one, or its number."""
    with document.store.reading() as db:
        given = dict[NodeId, str](db.execute("SELECT id, name FROM body WHERE name IS NOT NULL").fetchall())
    taken = set(given.values())
    names = dict[NodeId, str]()
    for node in order:
        name = given.get(node) or str(node)
        while node not in given and name in taken:
            name = f"{name}+"
        names[node] = name
    return names


def _places(document: Document, order: list[NodeId]) -> dict[NodeId, int]:
    """Return the imported order numbers of siblings if they still give the same order; else 0, 1, 2 …"""
    places = {node: document.tree[node].place for node in order}
    seen: dict[tuple[NodeId | None, int], NodeId] = {}
    clash = set[NodeId | None]()
    for node in order:
        parent = document.tree[node].parent
        if (parent, places[node]) in seen:
            clash.add(parent)
        seen[parent, places[node]] = node
    for parent in clash:
        children = [c for c in document.tree.all_children(parent or ROOT) if c in places]
        places.update((child, index) for index, child in enumerate(children))
    return places


def _draft_node(node: Node, body: Body, names: dict[NodeId, str], place: int) -> DraftNode:
    name = names[node.id]
    made = Generation(node.seed, dict(node.sampling), node.model, node.finish_reason)
    plainly = all(not span.ids and span.author == node.author for span in node.spans)
    return DraftNode(
        id=name,
        parent_id=names.get(node.parent or 0),
        order=place,
        text=node.text,
        author=node.author,
        spans=[] if plainly else list(node.spans),
        generation=made if made != Generation() else None,
        marks=node.marks,
        settings=settings_from(body.settings),
        created=node.created or None,
        meta=dict(node.meta),
        number=None if name == str(node.id) else node.id,
    )


def fill(document: Document, draft: StoryDraft, progress: OnProgress = no_progress) -> None:
    """Fill an empty story with a checked ``draft``."""
    own_root = bool(draft.root.text) or draft.root.author == "model"
    numbers = _numbers(draft, own_root)
    with document.change():
        for done, node in enumerate(draft.nodes):
            if not done % _AT_ONCE:
                progress(done / len(draft.nodes))
            parent = numbers.get(node.parent_id or "") or (ROOT if own_root else None)
            _put(document, node, numbers[node.id], parent)
        document.put_value("title", draft.title)
        document.put_value("current", document.tree.nearest_living(numbers[draft.current_id]))
        document.put_value("own_root", own_root)
        document.put_value("author", draft.byline)
        if draft.language:
            document.put_value("language", language_tag(draft.language) or draft.language)
        document.put_value("gaps", gaps_in([ROOT, *numbers.values()]))
        fields = {key: getattr(draft, key) for key in _STORY}
        document.put_value("draft", {**fields, "meta": draft.meta})
        for key, value in draft.values.items():
            document.put_value(f"{_FACES}{key}", value)
        _put_progress(document, draft)


def _put_progress(document: Document, draft: StoryDraft) -> None:
    document.store.db.executemany(
        "INSERT OR REPLACE INTO progress (day, typed, picked, generated, seconds) VALUES (?, ?, ?, ?, ?)",
        [(day, *astuple(done)) for day, done in draft.days.items()],
    )


def _numbers(draft: StoryDraft, own_root: bool) -> dict[str, NodeId]:
    """Return a number for every draft id: the imported one, if all of them are usable."""
    brought = [_number(node) for node in draft.nodes]
    first, *others = brought
    if (
        len(set(brought)) == len(brought)
        and min(brought) >= ROOT
        and max(brought) < 2**31
        and (first == ROOT) == (not own_root)
        and ROOT not in others
    ):
        return {node.id: number for node, number in zip(draft.nodes, brought, strict=True)}
    return {node.id: number for number, node in enumerate(draft.nodes, start=ROOT + own_root)}


def _number(node: DraftNode) -> NodeId:
    """Return the imported number of a node, or 0."""
    if node.number is not None:
        return node.number
    digits = node.id.isascii() and node.id.isdigit() and len(node.id) < 11
    return int(node.id) if digits and str(int(node.id)) == node.id else 0


def _put(document: Document, node: DraftNode, number: NodeId, parent: NodeId | None) -> None:
    made, settings = node.generation or Generation(), settings_text(node.settings)
    entry = Entry(
        id=number,
        parent=parent,
        place=node.order,
        state=State.BINNED if node.marks.deleted and number != ROOT else State.LIVING,
        author=node.author,
        flags=SETTINGS if settings else 0,
        created=node.created or 0.0,
    )
    document.tree.put(entry.with_marks(node.marks))
    body = Body(
        recipe=document.recipe(made.model, made.sampling),
        seed=made.seed,
        finish=made.finish_reason,
        settings=settings,
        meta=json.dumps(node.meta) if node.meta else None,
        name=None if node.id == str(number) else well_formed(node.id),
    )
    spans = tidy(map(_sound, node.spans)) if node.spans else plain(well_formed(node.text), node.author)
    document.write(number, spans, body)


def _sound(span: Span) -> Span:
    """Return ``span`` without invalid ids or logprobs; text is always kept."""
    text = well_formed(span.text)
    if not fit(span.ids):
        return Span(text, span.author)
    logprobs = span.logprobs if len(span.logprobs) == len(span.ids) else ()
    return replace(span, text=text, logprobs=logprobs, lead=well_formed(span.lead))
