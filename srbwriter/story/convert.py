"""Conversion of an open story to a draft, and of a draft to a new story.

Every format reads and writes drafts; see :mod:`srbwriter.story.model`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import astuple, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from srbwriter.story.languages import default_language, language_tag
from srbwriter.story.model import (
    ROOT,
    DraftNode,
    Generation,
    JsonObject,
    NodeId,
    OnProgress,
    Span,
    State,
    StoryDraft,
    as_object,
    settings_from,
    settings_json,
)
from srbwriter.story.node import Node, row_of
from srbwriter.story.spans import Spans, fit, plain, tidy
from srbwriter.story.tree import Rows
from srbwriter.story.words import well_formed

if TYPE_CHECKING:
    from srbwriter.story.story import Story

_AT_ONCE = 500
"""Nodes between two reports of progress."""

_LONG = 32_000
"""Characters of a node by a person, about; longer ones are cut at paragraphs, so that a key writes little."""


def to_draft(story: Story, values: JsonObject, progress: OnProgress) -> StoryDraft:
    """Return everything but the undo history, and the nodes that only undo needs, as a draft."""
    order = _exported(story, bool(values.get("own_root")))
    taken = {node.name for node in order if node.name}
    names = {node.id: node.name or _free(str(node.id), taken) for node in order}
    nodes: list[DraftNode] = []
    for done, node in enumerate(order):
        if not done % _AT_ONCE:
            progress(done / len(order))
        nodes.append(_draft_node(node, names))
    came, properties = as_object(values.get("draft")), story.properties
    return StoryDraft(
        nodes, names.get(story.current, nodes[0].id), properties.title, properties.author,
        properties.language, came.get("created"), came.get("modified"), came.get("meta", {}), story.id,
        values={key[2:]: value for key, value in sorted(values.items()) if key.startswith("x-")},
        days=story.days(),
    )  # fmt: skip


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"{name}+"
    return name


def _exported(story: Story, own_root: bool) -> list[Node]:
    """Return every node with a text of its own, parents first, without an empty root added by the import."""
    order: list[Node] = []
    stack = [ROOT]
    while stack:
        node = story.node(stack.pop())
        below = story.all_children(node.id)
        if node.state == State.ABSORBED and all(n.state == State.ABSORBED for n in story.nodes(below)):
            continue  # other absorbed nodes are the parents of binned ones
        order.append(node)
        stack.extend(reversed(below))
    tops = [node for node in order if node.parent == ROOT]
    root = order[0]
    bare = not (root.bookmark or root.labels or root.note or root.title or root.own_settings)
    return order[1:] if own_root and len(tops) == 1 and bare else order


def _draft_node(node: Node, names: dict[NodeId, str]) -> DraftNode:
    name, spans = names[node.id], node.spans
    made = Generation(node.seed, dict(node.sampling), node.model, node.finish_reason)
    plainly = all(not span.ids and span.author == node.author for span in spans)
    return DraftNode(
        id=name,
        parent_id=names.get(node.parent or 0),
        order=node.place,
        text=node.text,
        author=node.author,
        spans=[] if plainly else list(spans),
        generation=made if made != Generation() else None,
        marks=node.marks,
        settings=settings_from(node.own_settings),
        created=node.created or None,
        meta=node.meta,
        number=None if name == str(node.id) else node.id,
    )


def rows_of(draft: StoryDraft, progress: OnProgress) -> Rows:
    """Return the rows of a story for a checked ``draft``."""
    own_root = bool(draft.root.text) or draft.root.author == "model"
    numbers = _numbers(draft, own_root)
    spare = max(numbers.values())
    nodes = {ROOT: Node(ROOT, None)}
    ends: dict[str, NodeId] = {}
    for done, each in enumerate(draft.nodes):
        if not done % _AT_ONCE:
            progress(done / len(draft.nodes))
        parent = ends.get(each.parent_id or "", ROOT if own_root else None)
        node, *parts = _nodes_of(each, numbers[each.id], parent)
        nodes[node.id] = node
        for part in parts:
            spare += 1
            part.id, part.parent, node = spare, node.id, part
            nodes[spare] = part
        ends[each.id] = node.id
    here: NodeId | None = ends[draft.current_id]
    living = here
    while here is not None:
        living = living if nodes[here].state == State.LIVING else nodes[here].parent
        here = nodes[here].parent
    language = language_tag(draft.language) or draft.language or default_language()
    values: JsonObject = {
        "title": draft.title, "author": draft.byline, "language": language, "current": living or ROOT,
        "own_root": own_root, "uuid": str(uuid4()),
        "draft": {"created": draft.created, "modified": draft.modified, "id": draft.id, "meta": draft.meta},
    } | {f"x-{key}": value for key, value in draft.values.items()}  # fmt: skip
    rows: Rows = {("value", key): value for key, value in values.items()}
    rows |= {("day", day): astuple(done) for day, done in draft.days.items()}
    return rows | {("node", number): row_of(node) for number, node in nodes.items()}


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


def _nodes_of(draft: DraftNode, number: NodeId, parent: NodeId | None) -> list[Node]:
    """Return the node of a draft, in parts if it is long."""
    made, marks = draft.generation or Generation(), draft.marks
    spans = tidy(map(_sound, draft.spans)) if draft.spans else plain(well_formed(draft.text), draft.author)
    parts = list(_parts(spans)) if draft.author != "model" else [spans]
    node = Node(
        number, parent, draft.order, State.BINNED if marks.deleted and number != ROOT else State.LIVING,
        draft.author, model=made.model, sampling=made.sampling, seed=made.seed,
        finish_reason=made.finish_reason, bookmark=marks.bookmark, visited=marks.visited,
        title=well_formed(marks.title), note=well_formed(marks.note),
        labels=well_formed("\n".join(marks.tags)), own_settings=settings_json(draft.settings),
        meta=draft.meta, name=None if draft.id == str(number) else well_formed(draft.id),
        created=draft.created or 0.0,
    )  # fmt: skip
    found = [node, *(Node(0, 0, author=draft.author, created=time.time()) for _ in parts[1:])]
    for each, part in zip(found, parts, strict=True):
        each.spans = part
    return found


def _parts(spans: Spans) -> Iterator[Spans]:
    """Yield a long text in parts, cut at ends of paragraphs."""
    if len(spans) != 1 or spans[0].ids or len(spans[0].text) <= _LONG:
        yield spans
        return
    text, at = spans[0].text, 0
    while len(text) - at > _LONG:
        end = text.rfind("\n", at + _LONG // 2, at + _LONG) + 1
        end = end or text.rfind(" ", at + _LONG // 2, at + _LONG) + 1 or at + _LONG
        yield (replace(spans[0], text=text[at:end]),)
        at = end
    yield (replace(spans[0], text=text[at:]),)


def _sound(span: Span) -> Span:
    """Return ``span`` without invalid ids or logprobs; text is always kept."""
    text = well_formed(span.text)
    if not fit(span.ids):
        return Span(text, span.author)
    logprobs = span.logprobs if len(span.logprobs) == len(span.ids) else ()
    return replace(span, text=text, logprobs=logprobs, lead=well_formed(span.lead))
