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
from itertools import accumulate

from srbwriter.story.edits import Edit, edit_between
from srbwriter.story.model import ROOT, Author, NodeId, Refused, Span, State
from srbwriter.story.node import Node
from srbwriter.story.spans import Spans, edited, text_of
from srbwriter.story.tree import Tree
from srbwriter.story.words import well_formed

PAUSE_SECONDS = 2.0
"""A longer pause between keystrokes starts a new action."""

UNIT_CHARS = 160
"""An action holds at most about this much typing, and ends at the end of a word."""

LONGEST = 32_000
"""Characters of a person's node, about: what is typed behind more begins a node of its own."""

_ENDS = (".", "!", "?", "\u2026", "\n", "\u3002")

_KEPT = "finish_reason", "visited", "bookmark", "title", "note", "tags", "own_settings", "meta"
"""What an edited node takes over."""


class TextTree(Tree):
    """A tree whose text can be edited."""

    typing_clock: Callable[[], float] = staticmethod(time.monotonic)
    _typing: tuple[int, int, float] | None = None
    """What the last action typed, which further typing continues: start and end in the text, and when."""

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
            if parts and len(edits) > 1:
                self._change("edit", parts)
            elif parts:
                start, end, words = parts[0]
                self._change("edit", parts, again=self._goes_on(parts[0], text))
                first, last, _ = self._typing or (start, end, 0.0)
                last = max(last, end) + len(words) - (end - start)
                self._typing = min(first, start), last, self.typing_clock()
            return self.current

    def set_text(self, text: str) -> NodeId:
        """Make ``text`` the text up to the current node, as :meth:`replace` does."""
        with self.together():
            return self.replace(Edit(0, self.chars(self.current), text))

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
        with self.together():
            self._change("rewrite", [Edit(start, end, text_of(spans))], tuple(spans))

    def _goes_on(self, edit: Edit, text: str) -> bool:
        """Whether ``edit`` of ``text`` is a part of the last action."""
        if self._typing is None or self.typing_clock() - self._typing[2] > PAUSE_SECONDS:
            return False
        start, end, _ = self._typing
        typed = text[start:end]
        ended = typed.rstrip(" \"'\u201d\u2019").endswith(_ENDS) and not edit.text.startswith(_ENDS)
        full = len(typed) > UNIT_CHARS and typed[-1:].isspace()
        adjacent = start <= edit.end and edit.start <= end
        return adjacent and (not (ended or full) or len(edit.text) <= edit.end - edit.start)

    # -- edits of nodes ----------------------------------------------------------------------------

    def _change(self, verb: str, edits: Sequence[Edit], inserted: Spans = (), *, again: bool = False) -> None:
        """Change the text by ``edits``, which insert words of the writer, or ``inserted`` by a model.

        With ``again`` they are a part of the last action, if they change one node.
        """
        line = self.line(self.current)[1:]
        starts = [*accumulate((len(node.text) for node in line), initial=0)]
        groups = list[tuple[int, int, list[Edit]]]()  # the first and the last node, and edits of them
        done = 0
        for edit in edits:
            if not done <= edit.start <= edit.end <= starts[-1]:
                raise Refused(f"{edit.start} to {edit.end} is no place for an edit of this text")
            low, high = self._touched(line, starts, edit)
            self.check_unwritten(*line[low : high + 1] or line[-1:])
            own, done = list[Edit](), edit.end
            if groups and low <= groups[-1][1]:
                low, _, own = groups.pop()
            own.append(edit)
            groups.append((low, high, own))
        single = groups[0][0] == groups[0][1]
        with self.verb(verb, self.current, again=again and single) as action:
            words, replaced = self.words(self.current), set[NodeId]()
            for low, high, own in reversed(groups):  # deepest first
                nodes, begin = line[low : high + 1], starts[low]
                own = [Edit(edit.start - begin, edit.end - begin, edit.text) for edit in own]
                spans = [span for node in nodes for span in node.spans]
                spans = edited(spans, own, self.token_sizes, inserted)
                is_cut = high == len(line) - 1 and edits[-1].end == starts[-1]
                if not nodes:
                    above = line[-1].id if line else ROOT
                    line.append(self.add_node(above, spans, "edited" if inserted else "writer"))
                elif low == high and nodes[0].author != "model":
                    self.put_spans(nodes[0], spans)
                elif is_cut and not spans:
                    del line[low:]  # it stays as it is, on a branch of its own
                else:
                    line[low : high + 1] = [made] = [self._add_edited(nodes, spans)]
                    # What follows moves along, but not from an end that is cut off, or that end itself.
                    for child in [] if is_cut else self.all_children(nodes[-1].id):
                        if child not in replaced:
                            self.set(self._nodes[child], parent=made.id)
                    replaced.add(nodes[0].id)
            self.put("current", line[-1].id if line else ROOT)
            action.words += self.words(self.current) - words

    def _add_edited(self, nodes: Sequence[Node], spans: Spans) -> Node:
        """Add a node beside the first of ``nodes``, in the place of all of them, and move its marks there."""
        first = nodes[0]
        author: Author = "writer" if all(node.author == "writer" for node in nodes) else "edited"
        kept = {name: getattr(first, name) for name in _KEPT}
        made = self.add_node(first.parent, spans, author, like=first, undone=State.ABSORBED, **kept)
        self.set(first, bookmark=False, title="", note="", tags=())
        return made

    def _touched(self, line: Sequence[Node], starts: Sequence[int], edit: Edit) -> tuple[int, int]:
        """Return the first and the last of the nodes, which begin at ``starts``, that an edit changes.

        Words at the end go into the last node if a person wrote it and nothing follows it, else into a new
        one. An insertion between nodes goes into the first that a person wrote, or into the last that no
        model is writing, since text can only be added at the end of that one.
        """
        if edit.start < edit.end:
            return bisect_right(starts, edit.start) - 1, bisect_left(starts, edit.end) - 1
        if edit.start == starts[-1] and not (line and self._can_grow(line[-1])):
            return len(line), len(line)
        there = range(bisect_left(starts, edit.start, 1) - 1, bisect_right(starts, edit.start, 0, len(line)))
        ended = next((n for n in reversed(there) if line[n].streaming is None), there[-1])
        place = next((n for n in there if line[n].author != "model"), ended)
        return place, place

    def _can_grow(self, node: Node) -> bool:
        """Whether words typed at the end of ``node`` go into it."""
        followed = any(child.state != State.ABSORBED for child in self.nodes(self.all_children(node.id)))
        return node.author in ("writer", "edited") and not followed and len(node.text) < LONGEST
