"""The branches of a story while a model writes them.

A branch is known by the node it began with. If the writer takes part of it, or types into it, it goes on at
the end of what was written, and keeps its name. Nothing that was generated is ever undone or dropped. Knows
no engine: somebody tells it the text, and when; what is told is on the disk when a verb returns.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from srbwriter.story.document import Written
from srbwriter.story.edits import Edits
from srbwriter.story.model import Author, JsonObject, NodeId, Refused, Span, State
from srbwriter.story.spans import change, cut, fit, plain, tidy
from srbwriter.story.store import Body
from srbwriter.story.tree import VISITED
from srbwriter.story.words import count, well_formed


class Branches(Edits):
    """A story's branches in work. Verbs raise NoSuchNode, Refused, ReadOnlyStory or NotSaved."""

    @contextmanager
    def together(self) -> Generator[None]:
        """All verbs inside are one transaction: on the disk afterwards, or nothing of them happened.

        If one of them raises, the whole does, also where its error was caught inside.
        """
        with self._document.change():
            yield

    def begin_branches(
        self,
        parent: NodeId,
        n: int,
        *,
        model: str = "",
        vocab: str = "",
        sampling: JsonObject | Sequence[JsonObject] = (),
        seeds: Sequence[int | None] = (),
    ) -> list[NodeId]:
        """``n`` empty branches that will be written; ``sampling`` is one for all or one each.

        They are not an action: nothing that was generated is ever undone.
        """
        each = [sampling] * n if isinstance(sampling, dict) else list(sampling) or [{}] * n
        numbers = list(seeds) or [None] * n
        if len(each) != n or len(numbers) != n:
            raise ValueError(f"{n} branches, {len(each)} samplings, {len(numbers)} seeds")
        document = self._document
        with document.change():
            if document.tree[parent].state == State.ABSORBED:
                raise Refused(f"node {parent} is part of another node now")
            if document.written_at(parent) is not None:
                raise Refused(f"node {parent} is still being written — finish it, or pick a part of it")
            bodies = [Body(recipe=document.recipe(model, each[i]), seed=numbers[i]) for i in range(n)]
            names = [document.add(parent, (), "model", body=body, visited=False) for body in bodies]
            document.live.update((name, Written(name, vocab)) for name in names)
            return names

    def stream(
        self,
        branch: NodeId,
        text: str,
        ids: Sequence[int] = (),
        logprobs: Sequence[float | None] = (),
        *,
        lead: str = "",
    ) -> None:
        """More of a branch. ``lead`` is what the first ids say that already stood before (token healing)."""
        if logprobs and len(logprobs) != len(ids):
            raise ValueError(f"{len(ids)} ids and {len(logprobs)} logprobs")
        if not text and not ids:
            return
        document = self._document
        with document.change():
            written = self._written(branch)
            more = _span(text, ids, logprobs, written.vocab, lead)
            document.write(written.node, tidy([*document.spans(written.node), more]))

    def replace_stream(self, branch: NodeId, text: str = "", ids: Sequence[int] = ()) -> NodeId:
        """The branch begins again, with ``text``; returns its name from now on.

        What it had written stays as a node of its own, with the old number.
        """
        document = self._document
        with document.change():
            written = self._written(branch)
            first = document.tree[branch]
            spans = tidy([_span(text, ids, (), written.vocab)])
            if written.node == branch and not document.body(branch).text:
                document.write(branch, spans)
                return branch
            if first.parent is None:
                raise Refused("the root is not a branch")
            body = document.body(branch)._replace(finish="", settings=None, meta=None, name=None)
            new = document.add(first.parent, spans, "model", body=body, place=first.place, visited=False)
            document.set_body(written.node, finish="replaced")
            del document.live[branch]
            document.live[new] = Written(new, written.vocab)
            return new

    def carry_marks(self, old: NodeId, new: NodeId) -> None:
        """``new`` is another take of the branch ``old``, and has its bookmark and its rating too.

        No action that could be undone: it is a part of what the model writes.
        """
        with self._document.change():
            tree = self._document.tree
            before, marks = tree[new], tree[old].marks
            marks = replace(before.marks, bookmark=marks.bookmark, rating=marks.rating)
            after = before.with_marks(marks)._asdict()
            tree.set(new, **{name: value for name, value in after.items() if value != getattr(before, name)})

    def interject(self, branch: NodeId, text: str) -> NodeId:
        """Words of the writer at the end of a branch that goes on being written; returns their node."""
        document = self._document
        with self._action("type", self._written(branch).node) as action:
            end = self._written(branch).node
            old = document.body(end)
            document.set_body(end, finish="interrupted")
            typed = document.add(end, plain(well_formed(text), "writer"), "writer")
            action.created(typed)
            action.typed = document.tree.count(typed).words - document.tree.count(end).words
            body = Body(recipe=old.recipe, seed=old.seed)
            after = document.add(typed, (), "model", body=body, visited=False)
            document.moved_on(end, after)
            return typed

    def finish(self, branch: NodeId, reason: str) -> None:
        """The branch is written."""
        document = self._document
        with document.change():
            node = self._written(branch).node
            document.set_body(node, finish=reason)
            document.sitting.record(0, 0, document.tree[node].words)
            del document.live[branch]

    def pick_as(self, parent: NodeId, text: str, original: str, end: NodeId | None = None) -> NodeId:
        """Take ``text`` below ``parent``, which somebody made of a model's ``original``; returns its node.

        With ``end``, the nodes from ``parent`` down to that begin with ``original``: they stay as they are,
        and what was not changed keeps its tokens.
        """
        document, text = self._document, well_formed(text)
        with self._verb():
            self._kept(parent)
            self._unwritten(parent)
            spans, body, place, flags = plain(original, "model"), Body(), None, 0
            below: list[NodeId] = []
            if end is not None:
                below = document.tree.path(end)[len(document.tree.path(parent)) :]
                whole = tidy(span for n in below for span in document.spans(n))
                spans, _ = cut(whole, len(original), document.token_sizes)
                first = document.body(below[0])
                body = Body(recipe=first.recipe, seed=first.seed, settings=first.settings)
                place, flags = document.tree[below[0]].place, document.tree[below[0]].flags
            author: Author = "model" if text == original else "edited"
            if text != original:
                spans = change(spans, text, "writer", document.token_sizes)
            with self._history.action("pick", parent) as action:
                self._out_of_bin(action, parent)
                made = document.add(parent, spans, author, place=place, body=body)
                document.tree.set(made, flags=flags | VISITED)
                action.created(made)
                action.typed = count(text).words - count(original).words
                known = sum(document.tree[n].words for n in below if document.tree[n].author == "writer")
                action.picked = self._words(made) - self._words(parent) - action.typed - known
                action.became = made
            return made

    def target(self, branch: NodeId) -> NodeId:
        """The node that a branch's text goes to now."""
        return self._written(branch).node

    def _written(self, branch: NodeId) -> Written:
        with self._lock:
            try:
                return self._document.live[branch]
            except KeyError:
                raise Refused(f"node {branch} is not being written") from None


def _span(
    text: str, ids: Sequence[int], logprobs: Sequence[float | None], vocab: str, lead: str = ""
) -> Span:
    text = well_formed(text)
    return Span(text, "model", tuple(ids), vocab, tuple(logprobs), lead) if fit(ids) else Span(text, "model")
