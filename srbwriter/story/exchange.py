"""A living story as a draft, and a draft as a living story.

The draft is the form in which every format reads and writes; see :mod:`srbwriter.story.draft`.
Knows both sides, and no file format.
"""

from __future__ import annotations

import json
from dataclasses import asdict, astuple
from typing import Any, cast

from srbwriter.story import draft as d
from srbwriter.story.document import Document
from srbwriter.story.language import language_tag
from srbwriter.story.migrations import gaps_in
from srbwriter.story.reader import Reader
from srbwriter.story.runs import Runs, plain, tidy
from srbwriter.story.store import Body
from srbwriter.story.tree import SETTINGS, VISITED, Entry
from srbwriter.story.types import ROOT, Marks, Node, NodeId, Progress, Run, State, untold
from srbwriter.story.words import well_formed

_STORY = ("created", "modified", "id")
_FACES = "x-"
"""How the names of values begin that faces keep with a story."""
_AT_ONCE = 500
"""Nodes between two words of progress."""


def to_draft(story: Reader, document: Document, progress: Progress = untold) -> d.StoryDraft:
    """Everything but the undo history and the parts that only it needs, which only its own file keeps."""
    order = _exported(document)
    places = _places(document, order)
    names = _names(document, order)
    nodes: list[d.DraftNode] = []
    for start in range(0, len(order), _AT_ONCE):
        progress(start / len(order))
        chunk = order[start : start + _AT_ONCE]
        bodies = document.some_bodies(chunk)
        for node in story.nodes(chunk):
            body = bodies[node.id]
            parent = names.get(node.parent or 0)
            entry, name = document.tree[node.id], names[node.id]
            nodes.append(_draft_node(node, body, entry, name, parent, places[node.id]))
    fields = cast(dict[str, Any], document.value("draft", {}))
    properties = story.properties
    return d.StoryDraft(
        nodes,
        names.get(document.current, nodes[0].id),
        title=properties.title,
        byline=properties.author,
        language=properties.language,
        created=fields.get("created"),
        modified=fields.get("modified"),
        meta=fields.get("meta", {}),
        id=story.id,
        hoisted=names[story.hoisted] if story.hoisted != ROOT else "",
        values=_values(document),
        days={day: d.DraftDay(**asdict(progress)) for day, progress in story.days().items()},
        sittings=[d.DraftSitting(began, ended, **asdict(p)) for began, ended, p in story.sittings()],
    )


def _values(document: Document) -> d.JsonObject:
    """What faces keep, by their own names for it."""
    with document.store.reading() as db:
        rows = db.execute("SELECT key, json FROM value WHERE key GLOB ? ORDER BY key", (f"{_FACES}*",))
        return {key.removeprefix(_FACES): json.loads(text) for key, text in rows.fetchall()}


def _exported(document: Document) -> list[NodeId]:
    """Every node that has a text of its own, parents first, without a root that only we needed."""
    tree = document.tree
    order: list[NodeId] = []
    stack = [ROOT]
    while stack:
        node = stack.pop()
        below = tree.all_children(node)
        if tree[node].state != State.ABSORBED:
            order.append(node)
        elif not any(tree[child].state != State.ABSORBED for child in below):
            continue
        else:
            order.append(node)  # only holds what is in the bin
        stack.extend(reversed(below))
    tops = [node for node in order if tree[node].parent == ROOT]
    root = tree[ROOT]
    bare = root.marks == Marks() and not root.flags & SETTINGS
    return order[1:] if document.value("own_root") and len(tops) == 1 and bare else order


def _names(document: Document, order: list[NodeId]) -> dict[NodeId, str]:
    """What every node is called outside: as it came, or by its number."""
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
    """The order numbers that came with a draft, as long as they still say the same; else 0, 1, 2 …"""
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


def _draft_node(
    node: Node, body: Body, entry: Entry, name: str, parent: str | None, place: int
) -> d.DraftNode:
    return d.DraftNode(
        id=name,
        parent_id=parent,
        order=place,
        text=node.text,
        author=node.author,
        runs=_draft_runs(node),
        generation=_generation(node),
        marks=d.Marks(
            bookmark=node.marks.bookmark,
            tags=list(node.marks.tags),
            rating=node.marks.rating,
            note=node.marks.note,
            chapter=node.marks.chapter,
            title=node.marks.title,
            visited=node.visited,
            deleted=node.state != State.LIVING,
        ),
        settings=d.settings_from(body.settings),
        created=entry.created or None,
        meta=dict(node.meta),
        number=None if name == str(node.id) else node.id,
    )


def _draft_runs(node: Node) -> list[d.DraftRun]:
    """The runs, unless they say no more than the node does."""
    if all(run.ids is None and run.author == node.author for run in node.runs):
        return []
    return [
        d.DraftRun(run.text, run.author, list(run.ids or ()), run.vocab, list(run.logprobs or ()), run.lead)
        for run in node.runs
    ]


def _generation(node: Node) -> d.Generation | None:
    made = d.Generation(node.seed, dict(node.sampling), node.model, node.finish_reason)
    return made if made != d.Generation() else None


def fill(document: Document, draft: d.StoryDraft, progress: Progress = untold) -> None:
    """Put ``draft`` into an empty story. Raises DraftError, and then nothing is changed."""
    d.check_draft(draft)
    own_root = bool(draft.root.text) or draft.root.author == "model"
    numbers = dict[str, NodeId]()
    with document.change():
        taken = _numbers(draft, own_root)
        for done, node in enumerate(draft.nodes):
            if not done % _AT_ONCE:
                progress(done / len(draft.nodes))
            number = taken[node.id]
            numbers[node.id] = number
            parent = numbers.get(node.parent_id or "") or (ROOT if own_root else None)
            _put(document, node, number, parent)
        document.put_value("title", draft.title)
        document.put_value("current", document.tree.nearest_living(numbers[draft.current_id]))
        document.put_value("own_root", own_root)
        document.put_value("author", draft.byline)
        if draft.language:
            document.put_value("language", language_tag(draft.language) or draft.language)
        if draft.hoisted in numbers:
            document.put_value("hoisted", numbers[draft.hoisted])
        document.put_value("gaps", gaps_in([ROOT, *taken.values()]))
        fields = {key: getattr(draft, key) for key in _STORY}
        document.put_value("draft", {**fields, "meta": draft.meta})
        for key, value in draft.values.items():
            document.put_value(f"{_FACES}{key}", value)
        _put_progress(document, draft)


def _put_progress(document: Document, draft: d.StoryDraft) -> None:
    document.store.db.executemany(
        "INSERT OR REPLACE INTO progress (day, typed, picked, generated, seconds) VALUES (?, ?, ?, ?, ?)",
        [(day, *astuple(done)) for day, done in draft.days.items()],
    )
    document.store.db.executemany(
        "INSERT INTO sitting (began, ended, typed, picked, generated, seconds) VALUES (?, ?, ?, ?, ?, ?)",
        map(astuple, draft.sittings),
    )


def _numbers(draft: d.StoryDraft, own_root: bool) -> dict[str, NodeId]:
    """A number for every draft id: the one that it brings, if all of them can be used."""
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


def _number(node: d.DraftNode) -> NodeId:
    """The number that a node brings, or 0."""
    if node.number is not None:
        return node.number
    digits = node.id.isascii() and node.id.isdigit() and len(node.id) < 11
    return int(node.id) if digits and str(int(node.id)) == node.id else 0


def _put(document: Document, node: d.DraftNode, number: NodeId, parent: NodeId | None) -> None:
    made, settings = node.generation, d.settings_text(node.settings)
    marks = node.marks
    document.tree.put(
        Entry(
            id=number,
            parent=parent,
            place=node.order,
            state=State.BINNED if marks.deleted and number != ROOT else State.LIVING,
            author=node.author,
            chars=0,
            words=0,
            edges=0,
            flags=(VISITED if marks.visited else 0) | (SETTINGS if settings else 0),
            rating=0,
            tags=None,
            note=None,
            title=None,
            created=node.created or 0.0,
        ).with_marks(
            Marks(marks.bookmark, tuple(marks.tags), marks.rating, marks.note, marks.chapter, marks.title)
        )
    )
    body = Body(
        recipe=document.recipe(made.model, made.sampling) if made else None,
        seed=made.seed if made else None,
        finish=made.finish_reason if made else "",
        settings=settings,
        meta=json.dumps(node.meta) if node.meta else None,
        name=None if node.id == str(number) else well_formed(node.id),
    )
    document.write(number, _runs(node), body)


def _runs(node: d.DraftNode) -> Runs:
    """The runs of a draft node; ids or logprobs that cannot be right are left out, text never is."""
    return tidy(map(_run, node.runs)) if node.runs else plain(well_formed(node.text), node.author)


def _run(run: d.DraftRun) -> Run:
    if not run.tokens:
        return Run(well_formed(run.text), run.author)
    logprobs = tuple(run.logprobs) if len(run.logprobs) == len(run.tokens) else None
    return Run(
        well_formed(run.text), run.author, tuple(run.tokens), run.vocabulary, logprobs, well_formed(run.lead)
    )
