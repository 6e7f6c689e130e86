"""Changes of a story's branches while a model writes them.

A branch is identified by its first node. If the writer picks a part of it, or types into it, it continues at
the end of its text under the same id. Generated text is never undone or deleted. Callers provide the text,
and run all functions within ``Document.change``.
"""

from __future__ import annotations

from collections.abc import Sequence

from srbwriter.story.document import Document, Written
from srbwriter.story.encoding import change
from srbwriter.story.history import Action
from srbwriter.story.model import Author, JsonObject, NodeId, Refused, Span, State
from srbwriter.story.spans import Spans, cut, fit, plain, tidy
from srbwriter.story.store import Body
from srbwriter.story.tree import VISITED
from srbwriter.story.words import count, well_formed


def begin(
    document: Document,
    parent: NodeId,
    samplings: Sequence[JsonObject],
    seeds: Sequence[int | None],
    model: str,
    vocab: str,
) -> list[NodeId]:
    """Add an empty branch below ``parent`` for each of ``samplings``, and of ``seeds``."""
    if document.tree[parent].state == State.ABSORBED:
        raise Refused(f"node {parent} is part of another node now")
    if document.written_at(parent) is not None:
        raise Refused(f"node {parent} is still being written — finish it, or pick a part of it")
    names: list[NodeId] = []
    for sampling, seed in zip(samplings, seeds, strict=True):
        body = Body(recipe=document.recipe(model, sampling), seed=seed)
        names.append(document.add(parent, (), "model", body=body, visited=False))
    document.live.update((name, Written(name, vocab)) for name in names)
    return names


def stream(
    document: Document,
    branch: NodeId,
    text: str,
    ids: Sequence[int],
    logprobs: Sequence[float | None],
    lead: str,
) -> None:
    """Add text to the end of a branch."""
    written = document.written(branch)
    more = _span(text, ids, logprobs, written.vocab, lead)
    document.write(written.node, tidy([*document.spans(written.node), more]))


def begin_again(
    document: Document, branch: NodeId, text: str, ids: Sequence[int], seed: int | None
) -> NodeId:  # fmt: skip
    """Restart a branch with ``text``; return its new id. Without a ``seed`` the old one stays."""
    written = document.written(branch)
    first = document.tree[branch]
    spans = tidy([_span(text, ids, (), written.vocab)])
    seed = document.body(branch).seed if seed is None else seed
    if written.node == branch and not document.body(branch).text:
        document.write(branch, spans)
        document.set_body(branch, seed=seed)
        return branch
    if first.parent is None:
        raise Refused("the root is not a branch")
    body = document.body(branch)._replace(finish="", seed=seed, settings=None, meta=None, name=None)
    new = document.add(first.parent, spans, "model", body=body, place=first.place, visited=False)
    document.set_body(written.node, finish="replaced")
    del document.live[branch]
    document.live[new] = Written(new, written.vocab)
    return new


def finish(document: Document, branch: NodeId, reason: str) -> None:
    """Record that a branch has ended."""
    node = document.written(branch).node
    document.set_body(node, finish=reason)
    document.day_log.record(0, 0, document.tree[node].words)
    del document.live[branch]


def add_picked(
    document: Document, action: Action, parent: NodeId, text: str, original: str, end: NodeId | None
) -> NodeId:
    """Add ``text``, an edit of a model's ``original``, below ``parent``; return its node.

    With ``end``, ``original`` is the beginning of the nodes from ``parent`` down to ``end``.
    """
    tree = document.tree
    spans, body, place, flags = plain(original, "model"), Body(), None, 0
    below: Sequence[NodeId] = ()
    if end is not None:
        below = tree.path(end)[len(tree.path(parent)) :]
        spans = _beginning(document, below, len(original))
        first = document.body(below[0])
        body = Body(recipe=first.recipe, seed=first.seed, settings=first.settings)
        place, flags = tree[below[0]].place, tree[below[0]].flags
    author: Author = "model" if text == original else "edited"
    if text != original:
        spans = change(spans, text, "writer", document.token_sizes)
    made = document.add(parent, spans, author, place=place, body=body)
    tree.set(made, flags=flags | VISITED)
    action.created(made)
    action.typed = count(text).words - count(original).words
    known = sum(tree[node].words for node in below if tree[node].author == "writer")
    action.picked = tree.count(made).words - tree.count(parent).words - action.typed - known
    action.became = made
    return made


def _beginning(document: Document, nodes: Sequence[NodeId], chars: int) -> Spans:
    """Return the spans of the first ``chars`` characters of consecutive ``nodes``."""
    whole = tidy(span for node in nodes for span in document.spans(node))
    return cut(whole, chars, document.token_sizes)[0]


def _span(
    text: str, ids: Sequence[int], logprobs: Sequence[float | None], vocab: str, lead: str = ""
) -> Span:
    text = well_formed(text)
    return Span(text, "model", tuple(ids), vocab, tuple(logprobs), lead) if fit(ids) else Span(text, "model")
