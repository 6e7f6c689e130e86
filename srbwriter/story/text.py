"""Verbs that change the text of a story: anywhere on a path, as one action.

An edit within a node that a person wrote changes it in place. A text that a model wrote never changes: an
edit of it makes an edited sibling, to which what followed moves. Text cut off at the end of the story stays
as it was, on a branch of its own. Keystrokes in one place, without a pause and within one sentence, are one
action.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from srbwriter.story.edits import Edit, lettered, node_edits, refined, touched, whole_words
from srbwriter.story.line import Line
from srbwriter.story.model import NodeId, Refused, State
from srbwriter.story.node import Node
from srbwriter.story.spans import Spans, edited, plain, text_of
from srbwriter.story.tree import Tree
from srbwriter.story.words import well_formed

PAUSE_SECONDS = 2.0
"""A longer pause between keystrokes starts a new action."""

UNIT_CHARS = 160
"""An action holds at most about this much typing, and ends at the end of a word."""

LONGEST = 32_000
"""Characters of a person's node, about: what is typed behind more begins a node of its own."""

_FEW = 20
"""Edits up to which the pieces of a path are made as they are looked at."""

_ENDS = (".", "!", "?", "\u2026", "\n", "\u3002")


@dataclass(slots=True)
class Unit:
    """The last action, which further typing continues: the node typed in, and the range of its characters."""

    action: int
    node: NodeId
    start: int
    end: int
    before: str | None  # the text of the node before it, if an undo of the action gives exactly that
    later: NodeId  # nodes from this number on were made after it began
    last: float


class TextEditor:
    """Changes the texts of a tree; the last unit of typing is kept here."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.clock = time.monotonic  # seconds that only go forward
        self.unit: Unit | None = None

    def replace(self, edits: Sequence[Edit], end: NodeId) -> NodeId:
        """Apply ``edits`` to the text up to ``end``; return the node at which the text ends now."""
        tree, at = self._tree, 0
        path = tree.line(tree.check_living(end).id)
        for edit in edits:
            if not at <= edit.start <= edit.end <= path.length:
                raise Refused(f"{edit.start} to {edit.end} is no place for an edit of this text")
            at = edit.end
        parts = refined([Edit(a, b, well_formed(words)) for a, b, words in edits], path.read)
        if not parts:
            return end
        if len(edits) == 1:
            if parts[0].start == parts[-1].end == path.length:
                return self.append(end, parts[0].text)
            if (done := self._cut_off(parts, path, end)) is not None:
                return done
        found = node_edits(path if len(parts) < _FEW else path[:], parts)
        if len(edits) == 1 and len(found) == 1:  # one edit of one node, so that typing can go on
            [(node, some)] = found.items()
            if len(some) == 1 and (done := self._goes_on(some[0], tree.node(node), end)) is not None:
                return done
        return self._respell(_plainly(found), end)

    def append(self, end: NodeId, text: str) -> NodeId:
        """Type ``text`` at the end of ``end``; return the node that holds it."""
        tree, node = self._tree, self._tree.check_kept(end)
        if not text:
            return end
        own = node.author in ("writer", "edited") and node.parent is not None and len(node.text) < LONGEST
        followed = any(tree.node(c).state != State.ABSORBED for c in tree.all_children(end))
        if own and not followed:
            edit = Edit(len(node.text), len(node.text), text)
            done = self._goes_on(edit, node, end)
            return done if done is not None else self._respell(_plainly({end: [edit]}), end)
        tree.check_unwritten(node)
        with tree.verb("type", end) as action:
            size = len(tree.line(end))
            words = tree.line(end).words(size)
            made = tree.add_node(end, plain(text, "writer"), "writer")
            action.became, action.typed = made.id, tree.line(made.id).words(size) - words
        self._begin_unit(action.number, made.id, 0, len(text), "" if action.was == end else None)
        return made.id

    def put_passage(self, start: int, end: int, spans: Spans, node: NodeId) -> None:
        """Replace a passage, or put at a place, a model's ``spans``."""
        path = self._tree.line(node)
        if not 0 <= start <= end <= path.length:
            raise Refused(f"{start} to {end} is no passage of this text")
        edits = node_edits(path, [Edit(start, end, text_of(spans))])
        with self._tree.verb("rewrite", node) as action:
            words = self._tree.words(node)
            self._respell(
                {n: [(e, spans if e.text else ()) for e in some] for n, some in edits.items()}, node
            )
            action.typed, action.picked = 0, self._tree.words(action.became) - words

    # -- edits of nodes ----------------------------------------------------------------------------

    def _respell(self, edits: dict[NodeId, list[tuple[Edit, Spans | None]]], end: NodeId) -> NodeId:
        """Edit nodes on the path to ``end``; return the node at which the path ends now.

        An edit with spans inserts them; its own text is a person's.
        """
        tree = self._tree
        tree.check_unwritten(*map(tree.node, edits))
        first = next(iter(edits))
        with tree.verb("edit", first) as action:
            line, place = tree.line(end), first
            places = [line.index[number] for number in edits]
            words = line.words(min(places), max(places))
            text = tree.node(first).text if len(edits) == 1 and action.was == end else None
            for number in reversed(edits):  # deepest first
                node = tree.node(number)
                some = [edit for edit, _ in edits[number]]
                inserts = [plain(e.text, "writer") if s is None else s for e, s in edits[number]]
                spans = edited(node.spans, some, inserts, tree.token_sizes)
                place = number
                if node.author == "model":
                    place = self._twin(node, spans, edits)
                    end = place if number == end else end
                else:
                    tree.put_spans(node, spans)
            action.became = end
            action.typed = tree.line(end).words(min(places), max(places)) - words
        if len(edits[first]) == 1:
            edit = edits[first][0][0]
            self._begin_unit(action.number, place, edit.start, edit.start + len(edit.text), text)
        else:
            self.unit = None
        return end

    def _twin(self, node: Node, spans: Spans, edits: dict[NodeId, list[tuple[Edit, Spans | None]]]) -> NodeId:
        """Add an edited sibling of a model's ``node``, and move to it what follows, and the marks."""
        tree = self._tree
        twin = tree.add_node(
            node.parent, spans, "edited", place=node.place, undone=State.ABSORBED, recipe=node.recipe,
            seed=node.seed, finish_reason=node.finish_reason, visited=node.visited, bookmark=node.bookmark,
            title=node.title, note=node.note, labels=node.labels, own_settings=node.own_settings,
            extra=node.extra,
        )  # fmt: skip
        for child in tree.all_children(node.id):
            if not (child in edits and tree.node(child).author == "model"):  # that one has a twin, too
                tree.set(tree.node(child), parent=twin.id)
        tree.set(node, bookmark=False, title="", note="", labels="")
        return twin.id

    def _cut_off(self, parts: Sequence[Edit], path: Line, end: NodeId) -> NodeId | None:
        """Apply an edit that cuts off nodes at the end of the text; None for one within the last node.

        What is cut off stays, on a branch of its own.
        """
        tree, (start, stop, words) = self._tree, parts[-1]
        there = touched(path, start, stop)
        if there[-1].end != path.length or start == stop:
            return None
        first, old = there[0], path.read(there[0].begin, there[-1].end)
        start, stop = start - first.begin, stop - first.begin
        if len(there) > 1:
            start, stop, words = whole_words(old, start, stop, words)
        head, tail = old[:start], old[stop:]
        if len(there) > 1:  # keep no node of punctuation alone: move its signs into the new words
            head, words = (head, words) if lettered(head) or len(parts) > 1 else ("", head + words)
            tail, words = (tail, words) if lettered(tail) else ("", words + tail)
        if tail or (len(there) == 1 and (head or not first.model)):
            return None
        node = tree.node(first.node)
        tree.check_unwritten(node, tree.node(end))
        with tree.verb("edit", node.id) as action:
            low = path.index[touched(path, parts[0].start, parts[0].end)[0].node]
            count = path.words(low)
            before = path[: path.index[first.node]]
            if 0 < len(head) < len(node.text):
                tree.split_node(node, len(head))
            base = node.id if head else tree.check_parent(node.id, "cut").id
            kept = [*before, first._replace(end=first.begin + len(head))]
            if found := node_edits(kept, parts[:-1]):
                base = self._respell(_plainly(found), base)
            action.became = tree.add_node(base, plain(words, "writer"), "writer").id if words else base
            action.typed = tree.line(action.became).words(low) - count
        if words:
            self._begin_unit(action.number, action.became, 0, len(words), None)
        return action.became

    # -- one action for many keystrokes ------------------------------------------------------------

    def _begin_unit(self, action: int, node: NodeId, start: int, end: int, before: str | None) -> None:
        self.unit = Unit(action, node, start, end, before, self._tree.next_number, self.clock())

    def _goes_on(self, edit: Edit, node: Node, end: NodeId) -> NodeId | None:
        """Make ``edit`` a part of the last action; return the end of the text, or None if it is no part."""
        tree, unit = self._tree, self.unit
        if unit is None or unit.node != node.id or node.author == "model" or unit.action != tree.last_action:
            return None
        if self.clock() - unit.last > PAUSE_SECONDS or not unit.start <= edit.end or edit.start > unit.end:
            return None
        if any(child >= unit.later for child in tree.all_children(node.id)):
            return None  # a branch started below it since then follows the words as they are now
        typed = node.text[unit.start : unit.end]
        following = edit.text or node.text[edit.end : edit.end + 1]
        ended = typed.rstrip(" \"'\u201d\u2019").endswith(_ENDS) and not following.startswith(_ENDS)
        full = len(typed) > UNIT_CHARS and typed[-1:].isspace()
        if (ended or full) and len(edit.text) > edit.end - edit.start:
            return None
        with tree.verb("edit", node.id, again=True) as action:
            words = node.count[0]
            tree.put_spans(node, edited(node.spans, [edit], [plain(edit.text, "writer")], tree.token_sizes))
            action.typed, action.became = action.typed + node.count[0] - words, end
        unit.start = min(unit.start, edit.start)
        unit.end = max(unit.end, edit.end) + len(edit.text) - (edit.end - edit.start)
        unit.last = self.clock()
        if node.text == unit.before:  # all that was typed is taken back
            self.unit = None
            if unit.action == tree.last_action:
                tree.undo()
                return tree.current
        return end


def _plainly(edits: dict[NodeId, list[Edit]]) -> dict[NodeId, list[tuple[Edit, Spans | None]]]:
    """Return ``edits`` by a person."""
    return {node: [(edit, None) for edit in some] for node, some in edits.items()}
