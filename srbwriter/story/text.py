"""Edit the text of a path, and join keystrokes into one undoable action.

A node whose text changes keeps its number, its children and its marks, so a fix deep in a story moves nothing
after it. If the model wrote the node, the model's version becomes a sibling without children until the change
is undone. Text cut off at the end of the story stays as it was, on a branch of its own. Keystrokes in one
place, without a pause and within one sentence, are one action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from srbwriter.story import diff
from srbwriter.story.diff import Edit
from srbwriter.story.document import Document, PathText
from srbwriter.story.encoding import change, decode, edit_encoded, encode
from srbwriter.story.history import Action, History, Respell, Split
from srbwriter.story.model import ROOT, Author, NodeId, Refused, State
from srbwriter.story.spans import Spans, cut, plain, text_of, tidy
from srbwriter.story.store import Body
from srbwriter.story.words import well_formed

PAUSE_SECONDS = 2.0
"""A longer pause between keystrokes starts a new action."""

UNIT_CHARS = 160
"""An action holds at most about this much typing, and ends at the end of a word."""

_BODIES = 500
"""The number of nodes that an action which changes many of them reads at once."""

_ENDS = (".", "!", "?", "\u2026", "\n", "\u3002")


@dataclass(slots=True)
class _Unit:
    """The action that further typing joins, the node typed in, and the range of its typed characters."""

    action: Action
    step: Respell | None  # the change of the node; None where the action made it
    node: NodeId
    start: int
    end: int
    later: NodeId  # nodes from this number on were made after the unit began
    last: float


class TextEditor:
    """Edits the texts of ``document``, each as an action of ``history``.

    ``clock`` gives the seconds by which pauses in typing are measured. Callers hold ``Document.writing``.
    """

    def __init__(self, document: Document, history: History, clock: Callable[[], float]) -> None:
        self._document, self._history, self._clock = document, history, clock
        self._unit: _Unit | None = None
        # The action of a reverted transaction no longer exists, and its number is used again.
        document.on_revert.append(self.end_unit)

    def end_unit(self) -> None:
        """End the current unit: the next keystroke starts an action of its own."""
        self._unit = None

    def set_text(self, text: str, node: NodeId) -> NodeId:
        """See :meth:`.story.Story.set_text`."""
        path = PathText(self._document, self._document.check_living(node))
        edit = diff.edit_between(path.read(0, path.length), well_formed(text))
        return self._replace([edit], path, node)

    def replace(self, edits: Sequence[Edit], node: NodeId) -> NodeId:
        """See :meth:`.story.Story.replace`."""
        path, at = PathText(self._document, self._document.check_living(node)), 0
        for edit in edits:
            if not at <= edit.start <= edit.end <= path.length:
                raise Refused(f"{edit.start} to {edit.end} is no place for an edit of this text")
            at = edit.end
        return self._replace([Edit(a, b, well_formed(words)) for a, b, words in edits], path, node)

    def append(self, node: NodeId, text: str) -> NodeId:
        """Type ``text`` at the end of ``node``; see :meth:`.story.Story.append`."""
        self._document.check_kept(node)
        if not text:
            return node
        tree = self._document.tree
        followed = any(tree[child].state != State.ABSORBED for child in tree.all_children(node))
        if not followed and node != ROOT and tree[node].author in ("writer", "edited"):
            size = tree[node].chars
            return self._respell({node: [Edit(size, size, text)]}, node)
        with self._history.action("type", node) as action:
            action.became = self._create(action, node, text)
            action.typed = self._words(action.became) - self._words(node)
        self._start_unit(action, action.became)
        return action.became

    def rewrite(self, node: NodeId, text: str) -> NodeId:
        """Make ``text`` the whole text of ``node``; see :meth:`.story.Story.edit`."""
        document = self._document
        document.check_kept(node)
        entry, body = document.tree[node], document.body(node)
        if text == body.text:
            return node
        if entry.parent is None:
            return self.append(node, text)
        if entry.author != "model":
            return self._respell({node: [diff.edit_between(body.text, text)]}, node)
        document.check_unwritten(node)
        spans = change(document.spans(node), text, "writer", document.token_sizes)
        made = Body(recipe=body.recipe, seed=body.seed, settings=body.settings)
        with self._history.action("edit", node) as action:
            fork = document.add(entry.parent, spans, "edited", place=entry.place, body=made)
            document.tree.set(fork, flags=entry.flags)
            action.created(fork)
            action.typed = self._words(fork) - self._words(node)
            action.became = fork
        self._start_unit(action, fork)
        return fork

    def rewrite_passage(self, action: Action, start: int, end: int, spans: Spans, node: NodeId) -> None:
        """Replace a passage by a model's ``spans``; see :meth:`.story.Story.rewrite`."""
        document, path = self._document, PathText(self._document, node)
        if not 0 <= start < end <= path.length:
            raise Refused(f"{start} to {end} is no passage of this text")
        edits = diff.node_edits(path, [Edit(start, end, text_of(spans))])
        first, before = next(iter(edits)), self._words(node)
        for each in edits:
            document.check_unwritten(each)
        for each in reversed(edits):  # deepest first, as in _respell
            step = Respell.of(document, each, edits[each])
            if each == first:
                step.runs_after = self._with_spans(first, edits[first][0], spans)
            action.run(document, step)
        action.picked = self._words(node) - before

    def _with_spans(self, node: NodeId, edit: Edit, spans: Spans) -> bytes | None:
        """Return the encoded spans of ``node`` after ``edit``, whose text is that of ``spans``."""
        document, body = self._document, self._document.body(node)
        author = document.tree[node].author
        becomes: Author = "edited" if author == "model" else author
        text, runs = edit_encoded(
            body.runs, body.text, [edit], "writer", author, document.token_sizes, becomes
        )
        head, rest = cut(decode(runs, text, becomes), edit.start)  # the new text has no tokens to cut
        return encode(tidy([*head, *spans, *cut(rest, len(edit.text))[1]]), becomes)

    # -- edits of a path, as edits of its nodes ------------------------------------------------------

    def _replace(self, edits: Sequence[Edit], path: PathText, end: NodeId) -> NodeId:
        """Apply ``edits`` to the text of ``path``, which ends at ``end``; return the new end."""
        parts = diff.refined(edits, path.read)
        if not parts:
            return end
        with self._document.change():
            if len(edits) > 1:
                return self._respell(diff.node_edits(path, parts), end)
            if len(parts) == 1:
                start, stop, words = parts[0]
                if start == stop == path.length:
                    return self.append(end, words)
                spared = diff.sparing(parts[0], path, path.read)
                parts = [diff.within_chapter(edits[0], spared, path)]
            return self._cut_end(parts, path, end)

    def _cut_end(self, parts: Sequence[Edit], path: PathText, end: NodeId) -> NodeId:
        """Apply ``parts``, the last of which may cut off the end of the text."""
        start, stop, words = parts[-1]
        there = diff.touched(path, start, stop)
        first, last = there[0], there[-1]
        if last.end == path.length and start < stop:
            old, begin = path.read(first.begin, last.end), first.begin
            start, stop = start - begin, stop - begin
            if first != last:
                start, stop, words = diff.whole_words(old, start, stop, words, 0)
            head, tail = old[:start], old[stop:]
            if first != last:  # keep no node of punctuation alone: move its signs into the new words
                head, words = (head, words) if diff.lettered(head) or len(parts) > 1 else ("", head + words)
                tail, words = (tail, words) if diff.lettered(tail) else ("", words + tail)
            if not tail and (first != last or (first.model and not head)):
                before = takewhile(first.__ne__, diff.between(path, parts[0].start, begin))
                kept = [*before, first._replace(end=begin + len(head))]
                edits = self._one_each(diff.node_edits(kept, parts[:-1]))
                return self._respell(edits, end, (first.node, len(head), words))
        return self._respell(self._one_each(diff.node_edits(path, parts)), end)

    def _one_each(self, edits: dict[NodeId, list[Edit]]) -> dict[NodeId, list[Edit]]:
        """Join the edits of each node, all parts of one edit of the path, into one."""
        texts = self._document.some_bodies(list(edits))
        return {node: [diff.joined(each, texts[node].text)] for node, each in edits.items()}

    def _words(self, node: NodeId) -> int:
        return self._document.tree.count(node).words

    def _create(self, action: Action, parent: NodeId, text: str) -> NodeId:
        self._document.check_unwritten(parent)
        node = self._document.add(parent, plain(text, "writer"), "writer")
        action.created(node)
        return node

    def _respell(
        self, edits: dict[NodeId, list[Edit]], end: NodeId, cut_off: tuple[NodeId, int, str] | None = None
    ) -> NodeId:
        """Apply ``edits`` to nodes on the path to ``end``; return the node at which the path ends now.

        ``cut_off`` (node, at, words) replaces the text after the first ``at`` characters of ``node`` by
        ``words``; the old text becomes a branch beside them. Further typing joins the new words, or the edit
        of the first node.
        """
        document = self._document
        for node in edits:
            self._document.check_unwritten(node)
        unit = self._unit
        if unit is not None and cut_off is None and list(edits) == [unit.node] and len(edits[unit.node]) == 1:
            text = document.body(unit.node).text
            edit = diff.settled(edits[unit.node][0], lambda start, stop: text[start:stop])
            if self._goes_on(unit, edit, text):
                self._extend(unit, edit, end)
                return end
        first = next(iter(edits), cut_off[0] if cut_off else end)
        steps: dict[NodeId, Respell] = {}
        with self._history.action("edit", first) as action:
            count = self._words(end)
            action.became = end if cut_off is None else self._cut_off(action, *cut_off)
            nodes = list(reversed(edits))  # deepest first: a kept copy is older than its parent's change
            for index, node in enumerate(nodes):
                if index % _BODIES == 0:
                    document.some_bodies(nodes[index : index + _BODIES])  # into the cache, with one query
                steps[node] = Respell.of(document, node, edits[node])
                action.run(document, steps[node])
            action.typed = self._words(action.became) - count
        if cut_off is None:
            self._start_unit(action, first, steps[first])
        elif cut_off[2]:
            self._start_unit(action, action.became)
        return action.became

    def _cut_off(self, action: Action, node: NodeId, at: int, words: str) -> NodeId:
        base = node if at else self._document.check_parent(node, "cut")
        if at:
            action.run(self._document, Split(node, at))
        return self._create(action, base, words) if words else base

    # -- one action for many keystrokes ------------------------------------------------------------

    def _start_unit(self, action: Action, node: NodeId, step: Respell | None = None) -> None:
        """Start a unit with ``action``, which created ``node`` or changed it by ``step``."""
        tree = self._document.tree
        start, end = (0, tree[node].chars) if step is None else (step.start, step.start + len(step.inserted))
        self._unit = _Unit(action, step, node, start, end, tree.next_id, self._clock())

    def _goes_on(self, unit: _Unit, edit: Edit, now: str) -> bool:
        """Whether ``edit`` continues the unit's typing; ``now`` is the text of its node."""
        if unit.action.id != self._history.head:
            return False
        if self._clock() - unit.last > PAUSE_SECONDS:
            return False
        if any(child >= unit.later for child in self._document.tree.all_children(unit.node)):
            return False  # a branch started below it since then follows the words as they are now
        if edit.end < unit.start or edit.start > unit.end:
            return False  # the edit is in another place
        typed = now[unit.start : unit.end]
        following = edit.text or now[edit.end : edit.end + 1]
        ended = typed.rstrip(" \"'\u201d\u2019").endswith(_ENDS) and not following.startswith(_ENDS)
        full = len(typed) > UNIT_CHARS and typed[-1:].isspace()
        return not ((ended or full) and len(edit.text) > edit.end - edit.start)

    def _extend(self, unit: _Unit, edit: Edit, end: NodeId) -> None:
        document, action, node = self._document, unit.action, unit.node
        with document.change():
            words = self._words(end)
            if unit.step is not None and len(action.changes) == 1 and unit.step.is_undone_by(document, edit):
                self._history.undo()  # the edit takes back all that was typed
                self._unit = None
            else:
                if unit.step is not None:
                    unit.step.go_on(document, edit)
                    unit.start, unit.end = unit.step.start, unit.step.start + len(unit.step.inserted)
                else:
                    body, author = document.body(node), document.tree[node].author
                    parts = diff.refined([edit], lambda start, stop: body.text[start:stop])
                    text, runs = edit_encoded(
                        body.runs, body.text, parts, "writer", author, document.token_sizes
                    )
                    document.put_text(node, text, runs)
                    unit.end = document.tree[node].chars
                typed = self._words(end) - words
                action.typed, action.became = action.typed + typed, end
                document.day_log.record(typed, 0, 0, action.at)
                self._history.save(action)
                unit.last = self._clock()
            document.put_value("current", end)
