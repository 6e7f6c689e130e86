"""An open story as a draft, and a draft as the rows of a new story.

Every format reads and writes drafts; see :mod:`srbwriter.story.model`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
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
from srbwriter.story.node import Node
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
    nodes: list[DraftNode] = []
    stack = [ROOT]
    while stack:
        node = story.node(stack.pop())
        below = story.all_children(node.id)
        if node.state == State.ABSORBED and all(n.state == State.ABSORBED for n in story.nodes(below)):
            continue  # other absorbed nodes are the parents of binned ones
        if not len(nodes) % _AT_ONCE:
            progress(min(len(nodes) / len(story), 1.0))
        made = Generation(node.seed, dict(node.sampling), node.model, node.finish_reason)
        plainly = all(not span.ids and span.author == node.author for span in node.spans)
        nodes.append(
            DraftNode(
                str(node.id),
                str(node.parent) if node.parent else None,
                node.place,
                node.text,
                node.author,
                [] if plainly else list(node.spans),
                made if made != Generation() else None,
                node.marks,
                settings_from(node.own_settings),
                node.created or None,
                node.meta,
            )  # fmt: skip
        )
        stack.extend(reversed(below))
    came, properties = as_object(values.get("draft")), story.properties
    return StoryDraft(
        nodes, str(story.current), properties.title, properties.author, properties.language,
        came.get("created"), came.get("modified"), came.get("meta", {}), story.id,
        values={key[2:]: value for key, value in sorted(values.items()) if key.startswith("x-")},
        days=story.days(),
    )  # fmt: skip


def rows_of(draft: StoryDraft, progress: OnProgress) -> Rows:
    """Return the rows of a story for a checked ``draft``.

    A root with a text of its own hangs below an empty one. Numbers that are usable as ids stay.
    """
    own_root = bool(draft.root.text)
    brought = [int(n.id) if n.id.isascii() and n.id.isdigit() and len(n.id) < 10 else 0 for n in draft.nodes]
    if len(set(brought)) < len(brought) or own_root or min(brought) < ROOT or brought[0] != ROOT:
        brought = list(range(ROOT + own_root, ROOT + own_root + len(brought)))
    spare = max(brought)
    nodes = {ROOT: Node(ROOT, None)}
    ends: dict[str | None, NodeId | None] = {None: ROOT if own_root else None}
    for done, (each, number) in enumerate(zip(draft.nodes, brought, strict=True)):
        if not done % _AT_ONCE:
            progress(done / len(draft.nodes))
        node, *parts = _nodes_of(each, number, ends[each.parent_id])
        nodes[number] = node
        for part in parts:
            spare += 1
            part.id, part.parent, node = spare, node.id, part
            nodes[spare] = part
        ends[each.id] = node.id
    here = living = ends[draft.current_id]
    while here is not None:
        living = living if nodes[here].state == State.LIVING else nodes[here].parent
        here = nodes[here].parent
    language = language_tag(draft.language) or draft.language or default_language()
    values: JsonObject = {
        "title": draft.title, "author": draft.byline, "language": language, "current": living or ROOT,
        "uuid": str(uuid4()),
        "draft": {"created": draft.created, "modified": draft.modified, "id": draft.id, "meta": draft.meta},
    } | {f"x-{key}": value for key, value in draft.values.items()}  # fmt: skip
    rows: Rows = {("value", key): value for key, value in values.items()}
    rows |= {("day", day): done for day, done in draft.days.items()}
    return rows | {("node", number): node for number, node in nodes.items()}


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
        meta=draft.meta, created=draft.created or 0.0,
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
