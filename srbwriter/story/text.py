"""Changes of the text of a story, anywhere on a path.

An edit within a node that a person wrote changes it in place. A text that a model wrote never changes: an
edit of it, or of several nodes, makes an edited node beside them, to which what followed moves. Text cut off
at the end of the story stays as it was, on a branch of its own. Keystrokes in one place, without a pause and
within one sentence, are one action.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from srbwriter.story.edits import Edit, edit_between
from srbwriter.story.model import ROOT, Author, NodeId, Refused, Span, State
from srbwriter.story.node import Node
from srbwriter.story.spans import Spans, edited, plain, text_of, tidy
from srbwriter.story.tree import Tree
from srbwriter.story.words import well_formed

PAUSE_SECONDS = 2.0
"""A longer pause between keystrokes starts a new action."""

UNIT_CHARS = 160
"""An action holds at most about this much typing, and ends at the end of a word."""

LONGEST = 32_000
"""Characters of a person's node, about: what is typed behind more begins a node of its own."""

_ENDS = (".", "!", "?", "\u2026", "\n", "\u3002")

_KEPT = "place", "finish_reason", "visited", "bookmark", "title", "note", "labels", "own_settings", "meta"
"""What an edited node takes over."""


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
            parts, text, at = list[Edit](), self.text(self.current), 0
            for start, at, words in edits:
                first, end, words = edit_between(text[start:at], well_formed(words))
                if first < end or words:
                    parts.append(Edit(start + first, start + end, words))
            if not parts:
                return self.current
            if len(edits) == 1 and parts[0].start == len(text) and not self._can_grow(self.current):
                return self._begin(parts[0].text)
            return self._change(parts, [plain(part.text, "writer") for part in parts], len(edits) == 1)

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
            self._change([Edit(start, end, text_of(spans))], [tuple(spans)], typed=False)

    # -- edits of nodes ----------------------------------------------------------------------------

    def _can_grow(self, node: NodeId) -> bool:
        """Whether words typed at the end of ``node`` go into it."""
        last = self._nodes[node]
        followed = any(child.state != State.ABSORBED for child in self.nodes(self.all_children(node)))
        typed = last.author in ("writer", "edited") and node != ROOT
        return typed and not followed and len(last.text) < LONGEST

    def _begin(self, text: str) -> NodeId:
        """Type ``text`` at the end of the story, in a node of its own."""
        last = self._nodes[self.current]
        self.check_unwritten(last)
        with self.verb("type", last.id) as action:
            made = self.add_node(last.id, plain(text, "writer"), "writer")
            action.became, action.words = made.id, self.words(made.id) - self.words(last.id)
        self._keep_typing(made, Edit(0, 0, text), "")
        return self.current if self._action is None else action.became

    def _change(self, edits: Sequence[Edit], inserts: Sequence[Spans], typed: bool) -> NodeId:
        """Change the text by ``edits``, each of which inserts one of ``inserts``; return where it ends now.

        What is ``typed`` can go on.
        """
        line = self.line(self.current)[1:]
        starts = [*accumulate((len(node.text) for node in line), initial=0)]
        groups: list[tuple[int, int, int]] = []  # the first and the last node, and the first edit of them
        for number, edit in enumerate(edits):
            if (
                not (edits[number - 1].end if number else 0) <= edit.start <= edit.end <= starts[-1]
                or not line
            ):
                raise Refused(f"{edit.start} to {edit.end} is no place for an edit of this text")
            low, high = _touched(line, starts, edit)
            if groups and low <= groups[-1][1]:
                low, _, number = groups.pop()
            groups.append((low, high, number))
            self.check_unwritten(*line[low : high + 1])
        low, high, _ = groups[0]
        first, edit = line[low], Edit(edits[0].start - starts[low], edits[0].end - starts[low], edits[0].text)
        before = first.text if low == high else None
        again = typed and low == high and self._goes_on(edit, first)
        with self.verb("edit", first.id, again=again) as action:
            replaced, behind, words = set[NodeId](), len(edits), self.words(self.current)
            for low, high, number in reversed(groups):  # deepest first
                nodes, below = line[low : high + 1], self.all_children(line[high].id)
                own = [Edit(e.start - starts[low], e.end - starts[low], e.text) for e in edits[number:behind]]
                spans = inserts[number]
                if own[0].end - own[0].start < starts[high + 1] - starts[low]:  # else nothing of them stays
                    whole = tidy(span for node in nodes for span in node.spans)
                    spans = edited(whole, own, inserts[number:behind], self.token_sizes)
                is_end, in_place = high == len(line) - 1, low == high and nodes[0].author != "model"
                if in_place:
                    self.put_spans(nodes[0], spans)
                elif is_end and not spans:
                    del line[low:]  # it stays as it is, on a branch of its own
                else:
                    if is_end and (behind < len(edits) or (low < high and edits[-1].end == starts[-1])):
                        below = []  # they follow what is cut off, or are that
                    kept = {name: getattr(nodes[0], name) for name in _KEPT}
                    author: Author = "writer" if all(node.author == "writer" for node in nodes) else "edited"
                    made = self.add_node(
                        nodes[0].parent, spans, author, like=nodes[0], undone=State.ABSORBED, **kept
                    )
                    self.move((child for child in below if child not in replaced), made)
                    self.set(nodes[0], bookmark=False, title="", note="", labels="")
                    line[low : high + 1] = [made]
                    replaced.add(nodes[0].id)
                behind = number
            action.became = line[-1].id if line else ROOT
            action.words += self.words(action.became) - words
        low = groups[0][0]
        if typed and low < len(line):
            self._keep_typing(line[low], edit, before)
        return self.current if self._action is None else action.became

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


def _touched(line: Sequence[Node], starts: Sequence[int], edit: Edit) -> tuple[int, int]:
    """Return the first and the last of the nodes, which begin at ``starts``, that an edit changes.

    An insertion between nodes goes into the first that a person wrote, or into the last that no model is
    writing, since text can only be added at the end of that one.
    """
    if edit.start < edit.end:
        return bisect_right(starts, edit.start) - 1, bisect_left(starts, edit.end) - 1
    there = range(bisect_left(starts, edit.start, 1) - 1, bisect_right(starts, edit.start, 0, len(line)))
    ended = next((n for n in reversed(there) if line[n].streaming is None), there[-1])
    place = next((n for n in there if line[n].author != "model"), ended)
    return place, place
