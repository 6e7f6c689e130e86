"""Changes of the text of a story, anywhere on a path.

An edit within a node that a person wrote changes it in place. A text that a model wrote never changes: an
edit of it makes an edited sibling, to which what followed moves. Text cut off at the end of the story stays
as it was, on a branch of its own. Keystrokes in one place, without a pause and within one sentence, are one
action.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from srbwriter.story.edits import Edit, edit_between
from srbwriter.story.model import ROOT, NodeId, Refused, Span, State
from srbwriter.story.node import Node
from srbwriter.story.spans import Spans, edited, plain, text_of
from srbwriter.story.tree import Tree
from srbwriter.story.words import Count, well_formed

PAUSE_SECONDS = 2.0
"""A longer pause between keystrokes starts a new action."""

UNIT_CHARS = 160
"""An action holds at most about this much typing, and ends at the end of a word."""

LONGEST = 32_000
"""Characters of a person's node, about: what is typed behind more begins a node of its own."""

_ENDS = (".", "!", "?", "\u2026", "\n", "\u3002")

_KEPT = "place", "finish_reason", "visited", "bookmark", "title", "note", "labels", "own_settings", "meta"
"""What an edited sibling takes over."""

_Changes = dict[int, list[tuple[Edit, Spans]]]
"""Edits of nodes, by the places of these in a line, with the spans that each inserts."""


class Line:
    """The text from the root to a node: the nodes below the root, and where each begins."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = list(nodes)
        self.starts = list(accumulate((len(node.text) for node in self.nodes), initial=0))

    def read(self, start: int, stop: int) -> str:
        first, last = bisect_right(self.starts, start) - 1, bisect_left(self.starts, stop)
        text = "".join(node.text for node in self.nodes[first:last])
        return text[start - self.starts[first] : stop - self.starts[first]]

    def touched(self, start: int, stop: int) -> Sequence[int]:
        """Return the nodes that an edit of characters ``start`` to ``stop`` changes, by their places.

        An insertion between nodes goes into the first that a person wrote, or into the last that no model is
        writing, since text can only be added at the end of that one.
        """
        starts, nodes = self.starts, self.nodes
        place = bisect_right(starts, start) - 1
        if start < stop and stop <= starts[place + 1]:
            return (place,)
        there = range(bisect_left(starts, start, 1) - 1, bisect_right(starts, stop, 0, len(nodes)))
        within = [n for n in there if starts[n] < stop and start < starts[n + 1] and nodes[n].text]
        ended = next((n for n in reversed(there) if nodes[n].streaming is None), there[-1])
        return within or [next((n for n in there if nodes[n].author != "model"), ended)]

    def changes(self, edits: Iterable[tuple[Edit, Spans]]) -> _Changes:
        """Return edits of the text as those of its nodes.

        New words go into the first of the nodes whose text they replace.
        """
        found: _Changes = {}
        for (start, stop, words), spans in edits:
            for place in self.touched(start, stop):
                begin, end = self.starts[place : place + 2]
                edit = Edit(max(start - begin, 0), min(stop, end) - begin, words)
                found.setdefault(place, []).append((edit, spans))
                words, spans = "", ()
        return found

    def words(self, low: int, high: int) -> int:
        """Count the words of nodes ``low`` to ``high``, and of one before and one behind, which may share a
        word with them."""
        return Count.total(node.count for node in self.nodes[max(low - 1, 0) : high + 2]).words


@dataclass(slots=True)
class Typing:
    """What the last action typed, which further typing continues: a range of characters of a node."""

    node: NodeId
    start: int
    end: int
    before: str | None  # the text of the node before it, if an undo of the action gives exactly that
    at: float


class TextTree(Tree):
    """A tree whose text can be edited."""

    typing_clock: Callable[[], float] = staticmethod(time.monotonic)
    _typing: Typing | None = None

    def end_typing(self) -> None:
        self._typing = None

    def replace(self, *edits: Edit) -> NodeId:
        """Apply ``edits`` to the text from the root to the end of the current node, as one action.

        The edits are in order and disjoint, and their places are those of the text before all of them.
        Returns the node at which the text ends now, which becomes the current one. Raises Refused for an edit
        that is not within the text.
        """
        with self.together():
            line = self._line(edits)
            parts: list[Edit] = []
            for start, stop, words in edits:
                first, end, words = edit_between(line.read(start, stop), well_formed(words))
                if first < end or words:
                    parts.append(Edit(start + first, start + end, words))
            if not parts:
                return self.current
            if len(edits) == 1 and parts[0].start == line.starts[-1]:
                return self._append(line, parts[0].text)
            changes = line.changes((part, plain(part.text, "writer")) for part in parts)
            return self._change(line, changes, typed=len(edits) == 1)

    def set_text(self, text: str) -> NodeId:
        """Make ``text`` the text up to the current node, as :meth:`replace` does."""
        with self.together():
            return self.replace(edit_between(self.text(self.current), well_formed(text)))

    def append(self, text: str) -> NodeId:
        """Type ``text`` at the end of the current node; return the node that holds it.

        That is the current node itself if a person wrote it and nothing follows it, else a new child.
        """
        with self.together():
            end = self.chars(self.current)
            return self.replace(Edit(end, end, text))

    def rewrite(self, start: int, end: int, spans: Sequence[Span]) -> None:
        """Replace characters ``start`` to ``end`` of the current text by ``spans``, which a model wrote.

        One action; an empty passage is a place. Raises Refused for one that is not within the text.
        """
        with self.verb("rewrite", self.current):
            edit = Edit(start, end, text_of(spans))
            line = self._line([edit])
            self._change(line, line.changes([(edit, tuple(spans))]), typed=False)

    def _line(self, edits: Iterable[Edit]) -> Line:
        """Return the text up to the current node. Raises Refused unless all ``edits`` are within it."""
        line, at = Line(self.line(self.current)[1:]), 0
        for edit in edits:
            if not at <= edit.start <= edit.end <= line.starts[-1]:
                raise Refused(f"{edit.start} to {edit.end} is no place for an edit of this text")
            at = edit.end
        return line

    # -- edits of nodes ----------------------------------------------------------------------------

    def _append(self, line: Line, text: str) -> NodeId:
        last = self._nodes[self.current]
        at = len(last.text)
        followed = any(self._nodes[child].state != State.ABSORBED for child in self.all_children(last.id))
        if last.author in ("writer", "edited") and last.id != ROOT and at < LONGEST and not followed:
            change = Edit(at, at, text), plain(text, "writer")
            return self._change(line, {len(line.nodes) - 1: [change]}, typed=True)
        self.check_unwritten(last)
        with self.verb("type", last.id) as action:
            made = self.add_node(last.id, plain(text, "writer"), "writer")
            action.became, action.words = made.id, Line([last, made]).words(1, 1) - last.count[0]
        self._keep_typing(made, Edit(0, 0, text), "")
        return self.current if self._action is None else action.became

    def _change(self, line: Line, changes: _Changes, *, typed: bool) -> NodeId:
        """Change nodes of ``line``; return the node at which it ends now. What is ``typed`` can go on."""
        nodes, low, high = line.nodes, min(changes), max(changes)
        edit, first, whole = changes[low][0][0], nodes[low], len(nodes)
        before = first.text if low == high else None
        typed = typed and len(changes[low]) == 1
        self.check_unwritten(*(nodes[place] for place in changes))
        again = typed and low == high and self._goes_on(edit, first)
        with self.verb("edit", first.id, again=again) as action:
            words = line.words(low, high)
            twinned: set[NodeId] = set()
            for place in sorted(changes, reverse=True):  # deepest first
                node, is_end = nodes[place], place == len(nodes) - 1
                edits, inserts = zip(*changes[place], strict=True)
                spans = edited(node.spans, edits, inserts, self.token_sizes)
                if is_end and not spans and (node.author == "model" or len(changes) > 1):
                    nodes.pop()  # it stays as it is, on a branch of its own
                elif is_end and len(nodes) < whole:
                    nodes[place] = self._twin(node, spans, [])
                elif node.author == "model":  # of a child that has a twin too, the twin moves
                    below = [child for child in self.all_children(node.id) if child not in twinned]
                    nodes[place] = self._twin(node, spans, below)
                    twinned.add(node.id)
                else:
                    self.put_spans(node, spans)
            action.became = nodes[-1].id if nodes else ROOT
            action.words += line.words(low, high) - words
        if typed and low < len(nodes):
            self._keep_typing(nodes[low], edit, before)
        return self.current if self._action is None else action.became

    def _twin(self, node: Node, spans: Spans, below: Iterable[NodeId]) -> Node:
        """Add an edited sibling of ``node``, and move to it some nodes below, and the marks."""
        kept = {name: getattr(node, name) for name in _KEPT}
        twin = self.add_node(node.parent, spans, "edited", like=node, undone=State.ABSORBED, **kept)
        self.move(below, twin)
        self.set(node, bookmark=False, title="", note="", labels="")
        return twin

    # -- one action for many keystrokes ------------------------------------------------------------

    def _goes_on(self, edit: Edit, node: Node) -> bool:
        """Whether ``edit`` is a part of the last action."""
        last = self._typing
        if last is None or last.node != node.id or self.typing_clock() - last.at > PAUSE_SECONDS:
            return False
        typed = node.text[last.start : last.end]
        following = edit.text or node.text[edit.end : edit.end + 1]
        ended = typed.rstrip(" \"'\u201d\u2019").endswith(_ENDS) and not following.startswith(_ENDS)
        full = len(typed) > UNIT_CHARS and typed[-1:].isspace()
        adjacent = last.start <= edit.end and edit.start <= last.end
        return adjacent and (not (ended or full) or len(edit.text) <= edit.end - edit.start)

    def _keep_typing(self, node: Node, edit: Edit, before: str | None) -> None:
        """Note what has been typed, so that it can go on; if all of it is taken back, undo it."""
        start, end = edit.start, edit.start + len(edit.text)
        if (last := self._typing) is not None:
            start, end, before = min(last.start, start), max(last.end, edit.end) + end - edit.end, last.before
        self._typing = Typing(node.id, start, end, before, self.typing_clock())
        if node.text == before:
            self.undo()
