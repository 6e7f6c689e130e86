"""What a writer does to a story: its text, its tree and its marks, each verb one action that can be undone.

**Text.** A node keeps its number, its children and its marks when its text changes, so a fix deep in a story
leaves everything behind it where it is. Where the model wrote the node, its own take stays beside it, as a
sibling without children, for as long as the change stands. What is cut off at the end is not changed at all:
it goes on as a branch that nobody took. Keystrokes in one place, without a pause, up to the end of a sentence
are one action.

**Tree.** Nothing is ever dropped: what is deleted or undone is in the bin, or comes back with redo.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from srbwriter.story import diff
from srbwriter.story.document import Document
from srbwriter.story.history import Action, History, Respell, SetEntry, SetSettings, SetValue, Split
from srbwriter.story.languages import default_language, language_tag, nearest_languages
from srbwriter.story.model import (
    ROOT,
    Author,
    JsonObject,
    JsonValue,
    Marks,
    NodeId,
    NoSuchNode,
    Properties,
    Refused,
    Settings,
    State,
    settings_from,
    settings_text,
)
from srbwriter.story.progress import taken
from srbwriter.story.reader import Reader
from srbwriter.story.spans import change, plain
from srbwriter.story.store import Body
from srbwriter.story.tree import VISITED
from srbwriter.story.words import well_formed

PAUSE_SECONDS = 2.0
"""A longer pause between keystrokes starts a new action."""

UNIT_CHARS = 160
"""An action takes at most about this much typing; it ends at a word."""

_ENDS = (".", "!", "?", "\u2026", "\n", "\u3002")


@dataclass(slots=True)
class _Unit:
    """The action that typing goes on in, the node it is in, and the text that had before."""

    action: int
    node: NodeId
    before: str
    later: NodeId  # nodes from this number on came after it began
    last: float


class Edits(Reader):
    """The writing half of a story. Verbs raise NoSuchNode, Refused, ReadOnlyStory or NotSaved."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self._history = History(document)
        self._clock = time.monotonic
        self._unit: _Unit | None = None
        document.on_revert.append(self._stop)  # the number of an action that came to nothing is given again

    def _stop(self) -> None:
        self._unit = None

    @contextmanager
    def _verb(self) -> Generator[None]:
        """A verb: all of it happens or nothing, and typing ends as a unit."""
        with self._document.change():
            self._stop()
            yield

    @contextmanager
    def _action(self, verb: str, node: NodeId) -> Generator[Action]:
        """A verb that is one action, done to ``node``."""
        with self._verb(), self._history.action(verb, node) as action:
            yield action

    def _living(self, node: NodeId) -> NodeId:
        """``node``, or NoSuchNode if it is not part of the readable tree."""
        self._kept(node)
        if not self._document.tree.living(node):
            raise NoSuchNode(node, "is below something in the bin")
        return node

    def _kept(self, node: NodeId) -> None:
        """NoSuchNode if ``node`` is in the bin itself or has become part of another."""
        state = self._document.tree[node].state
        if state == State.BINNED:
            raise NoSuchNode(node, "is in the bin")
        if state == State.ABSORBED:
            raise NoSuchNode(node, "is part of another node now")

    def _parent(self, node: NodeId, verb: str) -> NodeId:
        """What ``node`` hangs below; Refused for the root, which cannot be ``verb``."""
        parent = self._document.tree[self._living(node)].parent
        if parent is None:
            raise Refused(f"the root of the story cannot be {verb}")
        return parent

    # -- text --------------------------------------------------------------------------------------

    def set_text(self, text: str, node: NodeId | None = None) -> NodeId:
        """Make ``text`` the text from the beginning to the end of ``node`` (the current one).

        Returns the node at whose end it ends now, which is the current one then. Nodes that are touched
        change in place, or give way at the end of the text; all others stay.
        """
        with self._document.writing:
            end = self._living(self.current if node is None else node)
            old, pieces = self._pieces(end)
            text = well_formed(text)
            if text == old:
                return end
            with self._document.change():
                if text.startswith(old):
                    return self._append(end, text[len(old) :])
                return self._replace(old, text, pieces)

    def append(self, text: str, node: NodeId | None = None) -> NodeId:
        """Type at the end of ``node`` (the current one); returns the node that holds the words.

        They go into ``node`` itself if a person wrote it and nothing follows it, else into a new child.
        """
        with self._document.change():
            return self._append(self.current if node is None else node, well_formed(text))

    def edit(self, node: NodeId, text: str) -> NodeId:
        """Make ``text`` the whole text of ``node``; returns the node that holds it.

        Generated text stays as it is, with all that follows it, and the edit becomes a sibling.
        """
        with self._document.change():
            self._kept(node)
            text, entry = well_formed(text), self._document.tree[node]
            if text == self._document.body(node).text:
                return node
            if entry.parent is None:
                return self._append(node, text)
            if entry.author != "model":
                return self._respell({node: text}, node)
            self._unwritten(node)
            spans = change(self._document.spans(node), text, "writer", self._document.token_sizes)
            body = self._document.body(node)
            made = Body(recipe=body.recipe, seed=body.seed, settings=body.settings)
            with self._history.action("edit", node) as action:
                fork = self._document.add(entry.parent, spans, "edited", place=entry.place, body=made)
                self._document.tree.set(fork, flags=entry.flags)
                action.created(fork)
                action.typed = self._words(fork) - self._words(node)
                action.became = fork
            self._start_unit(action, fork, "")
            return fork

    def end_typing(self) -> None:
        """Whatever is typed next can be undone on its own."""
        with self._document.writing:
            self._stop()

    def _replace(self, old: str, text: str, pieces: Sequence[diff.Piece]) -> NodeId:
        """Make ``text`` of ``old``, which is that of ``pieces``."""
        parts = diff.difference(old, text, pieces)
        start, stop, words = parts[-1]
        there = diff.touched(pieces, start, stop)
        first, last, end = there[0], there[-1], pieces[-1].node
        if last.end == len(old) and start < stop:
            if first != last:
                start, stop, words = diff.whole_words(old, start, stop, words, first.begin)
            head, tail = old[first.begin : start], old[stop : last.end]
            if first != last:  # signs alone are not what is left of a node, they are in the new words too
                head, words = (head, words) if diff.lettered(head) or len(parts) > 1 else ("", head + words)
                tail, words = (tail, words) if diff.lettered(tail) else ("", words + tail)
            if not tail and (first != last or (first.model and not head)):
                kept = [*pieces[: pieces.index(first)], first._replace(end=first.begin + len(head))]
                texts = diff.new_texts(old, kept, parts[:-1])
                return self._respell(texts, end, (first.node, len(head), words))
        return self._respell(diff.new_texts(old, pieces, parts), end)

    def _pieces(self, end: NodeId) -> tuple[str, list[diff.Piece]]:
        """The text from the beginning to ``end``, and which node has what of it."""
        path = self._document.tree.path(end)[1:]  # the root has none
        texts = self._document.texts(path)
        being_written = {written.node for written in self._document.live.values()}
        pieces: list[diff.Piece] = []
        at = 0
        for node in path:
            model, writing = self._document.tree[node].author == "model", node in being_written
            pieces.append(diff.Piece(node, at, at + len(texts[node]), model, writing))
            at += len(texts[node])
        return "".join(texts[node] for node in path), pieces

    def _words(self, node: NodeId) -> int:
        return self._document.tree.count(node).words

    def _unwritten(self, node: NodeId) -> None:
        if self._document.written_at(node) is not None:
            raise Refused(f"node {node} is still being written — stop it first, or type into it by interject")

    def _append(self, node: NodeId, text: str) -> NodeId:
        self._kept(node)
        if not text:
            return node
        tree = self._document.tree
        followed = any(tree[child].state != State.ABSORBED for child in tree.all_children(node))
        if not followed and node != ROOT and tree[node].author in ("writer", "edited"):
            return self._respell({node: self._document.body(node).text + text}, node)
        with self._history.action("type", node) as action:
            action.became = self._create(action, node, text)
            action.typed = self._words(action.became) - self._words(node)
        self._start_unit(action, action.became, "")
        return action.became

    def _create(self, action: Action, parent: NodeId, text: str) -> NodeId:
        self._unwritten(parent)
        node = self._document.add(parent, plain(text, "writer"), "writer")
        action.created(node)
        return node

    def _respell(
        self, texts: dict[NodeId, str], end: NodeId, cut_off: tuple[NodeId, int, str] | None = None
    ) -> NodeId:
        """Make ``texts`` the texts of nodes on the path to ``end``; returns where the path ends then.

        ``cut_off`` (node, at, words): the text ends after ``at`` characters of ``node`` and goes on with
        ``words``; what was there becomes a branch beside them. Typing goes on in the words, or in the first
        of the nodes.
        """
        document = self._document
        for node in texts:
            self._unwritten(node)
        unit = self._unit
        if unit is not None and cut_off is None and len(texts) == 1 and self._goes_on(unit, texts):
            self._extend(unit, texts[unit.node], end)
            return end
        first = next(iter(texts), cut_off[0] if cut_off else end)
        before = document.body(first).text
        with self._history.action("edit", first) as action:
            count = self._words(end)
            action.became = end if cut_off is None else self._cut_off(action, *cut_off)
            for node in reversed(texts):  # what is kept below a node is there before that changes
                action.run(document, Respell.of(document, node, texts[node]))
            action.typed = self._words(action.became) - count
        if cut_off is None:
            self._start_unit(action, first, before)
        elif cut_off[2]:
            self._start_unit(action, action.became, "")
        return action.became

    def _cut_off(self, action: Action, node: NodeId, at: int, words: str) -> NodeId:
        base = node if at else self._parent(node, "cut")
        if at:
            action.run(self._document, Split(node, at))
        return self._create(action, base, words) if words else base

    # -- one action for many keystrokes ------------------------------------------------------------

    def _start_unit(self, action: Action, node: NodeId, before: str) -> None:
        self._unit = _Unit(action.id, node, before, self._document.tree.next_id, self._clock())

    def _goes_on(self, unit: _Unit, texts: dict[NodeId, str]) -> bool:
        """Whether the one of ``texts`` is more of the same typing."""
        [(node, text)] = texts.items()
        if unit.node != node or unit.action != self._history.head:
            return False
        if self._clock() - unit.last > PAUSE_SECONDS:
            return False
        if any(child >= unit.later for child in self._document.tree.all_children(node)):
            return False  # what was begun below it since needs the words as they are now
        now = self._document.body(node).text
        start, end, _ = diff.changed(now, text)
        first, _, last = diff.changed(unit.before, now)
        if end < first or start > last:
            return False  # somewhere else
        typed = now[first:last]
        ended = typed.rstrip(" \"'\u201d\u2019").endswith(_ENDS) and not text[start:].startswith(_ENDS)
        full = len(typed) > UNIT_CHARS and typed[-1:].isspace()
        return not ((ended or full) and len(text) > len(now))

    def _extend(self, unit: _Unit, text: str, end: NodeId) -> None:
        document, node = self._document, unit.node
        action = self._history.get(unit.action)
        assert action is not None  # it is the head of history
        steps = [c for c in action.changes if isinstance(c, Respell) and c.node == node]
        with document.change():
            words = self._words(end)
            if steps and steps[0].before(document) == text and len(action.changes) == 1:
                self._history.undo()  # typed and taken back: nothing has happened
                self._unit = None
            else:
                if steps:
                    steps[0].go_on(document, text)
                else:
                    document.write(node, change(document.spans(node), text, "writer", document.token_sizes))
                typed = self._words(end) - words
                action.typed, action.became = action.typed + typed, end
                document.sitting.record(typed, 0, 0, action.at)
                self._history.save(action)
                unit.last = self._clock()
            document.put_value("current", end)

    # -- the tree ----------------------------------------------------------------------------------

    def add(
        self, parent: NodeId, texts: Sequence[str], author: Author = "writer", *, stand: bool = False
    ) -> list[NodeId]:
        """New sibling branches below ``parent``, from text at hand; ``stand`` at the last of them.

        Text by "imported" does not count as written today, nor by "model" before it is picked.
        """
        with self._action("add", parent) as action:
            self._living(parent)
            self._unwritten(parent)
            made = [self._document.add(parent, plain(well_formed(t), author), author) for t in texts]
            for node in made:
                action.created(node)
                action.typed += self._document.tree[node].words if author in ("writer", "edited") else 0
            if stand and made:
                action.became = made[-1]
            return made

    def pick(self, node: NodeId, at: int | None = None) -> NodeId:
        """Take ``node``, or its first ``at`` characters, and stand there; the rest stays as its child.

        What it hangs below comes out of the bin: a taken text is never cut off from its beginning.
        """
        with self._action("pick", node) as action:
            self._kept(node)
            length = self._document.tree[node].chars
            if at is not None and not 0 < at <= length:
                raise Refused(f"node {node} has {length} characters, not {at}")
            self._out_of_bin(action, node)
            if at is not None and at < length:
                action.run(self._document, Split(node, at))
            self._flag(node, True)
            action.picked = taken(self._document.tree, action.was, node)
            action.became = node
            return node

    def visit(self, node: NodeId) -> None:
        """Stand at ``node`` and mark it read. Moving about is not an action."""
        with self._document.change():
            self._living(node)
            self._flag(node, True)
            self._document.put_value("current", node)

    def mark_visited(self, node: NodeId, visited: bool = True) -> None:
        """Mark ``node`` read or unread, without going there."""
        with self._document.change():
            self._flag(node, visited)

    def _flag(self, node: NodeId, visited: bool) -> None:
        flags = self._document.tree[node].flags & ~VISITED
        self._document.tree.set(node, flags=flags | (VISITED if visited else 0))

    def split(self, node: NodeId, at: int) -> NodeId:
        """The text from ``at`` on becomes a child with all children of ``node``; returns that child."""
        with self._action("split", node) as action:
            self._parent(node, "split")
            length = self._document.tree[node].chars
            if not 0 < at < length:
                raise Refused(f"node {node} cannot be split at character {at} of {length}")
            step = Split(node, at)
            action.run(self._document, step)
            if action.was == node:
                action.became = step.rest
            return step.rest

    def merge(self, node: NodeId) -> NodeId:
        """Make ``node`` part of its parent, which is returned; siblings keep their text on a copy of it."""
        document = self._document
        with self._action("merge", node) as action:
            parent = self._parent(node, "merged")
            if parent == ROOT:
                raise Refused(f"node {node} has no parent with text to merge with")
            upper, lower = document.tree[parent], document.tree[node]
            self._settings_down(action, parent, node)
            action.run(document, Split(parent, upper.chars, rest=node, joining=True))
            self._set_marks(action, parent, _together(upper.marks, lower.marks))
            if upper.author != lower.author:
                self._set(action, parent, author="edited")
            if document.value("hoisted") == node:
                action.run(document, SetValue("hoisted", node, parent))
            if action.was == node:
                action.became = parent
            return parent

    def _settings_down(self, action: Action, parent: NodeId, node: NodeId) -> None:
        """The settings of both, so that what hangs below goes on under the same ones."""
        upper, lower = self._document.body(parent).settings, self._document.body(node).settings
        if lower:
            both = settings_from(lower).inherit(settings_from(upper))
            action.run(self._document, SetSettings(parent, upper, settings_text(both)))

    def delete(self, node: NodeId) -> None:
        """Into the bin, with everything below."""
        with self._action("delete", node) as action:
            parent = self._parent(node, "deleted")
            if node in self._document.tree.upward(action.was):
                action.became = parent
            self._set(action, node, state=State.BINNED)

    def restore(self, node: NodeId) -> None:
        """Out of the bin, with whatever it hangs below."""
        with self._action("restore", node) as action:
            if self._document.tree[node].state == State.ABSORBED:
                self._kept(node)
            self._out_of_bin(action, node)

    def _out_of_bin(self, action: Action, node: NodeId) -> None:
        for above in list(self._document.tree.upward(node)):
            if self._document.tree[above].state != State.LIVING:
                self._set(action, above, state=State.LIVING)

    def duplicate(self, node: NodeId, *, deep: bool = False) -> NodeId:
        """A copy beside ``node``; ``deep`` copies everything below as well."""
        document = self._document
        with self._action("duplicate", node) as action:
            parent = self._parent(node, "duplicated")
            copies = {parent: parent}
            for old in document.tree.reading_order(node) if deep else [node]:
                entry, body = document.tree[old], document.body(old)._replace(name=None)
                above = copies[entry.parent or ROOT]
                copies[old] = document.add(above, document.spans(old), entry.author, body=body)
                document.tree.put(entry._replace(id=copies[old], parent=above))
                action.created(copies[old])
            return copies[node]

    def reorder(self, node: NodeId, index: int) -> None:
        """Make ``node`` the ``index``-th of its siblings, counted from 0."""
        tree = self._document.tree
        with self._action("reorder", node) as action:
            parent = self._parent(node, "moved")
            living_ones = [sibling for sibling in tree.children(parent) if sibling != node]
            index = max(0, min(index, len(living_ones)))
            order = [sibling for sibling in tree.all_children(parent) if sibling != node]
            order.insert(order.index(living_ones[index]) if index < len(living_ones) else len(order), node)
            for place, sibling in enumerate(order):
                if tree[sibling].place != place:
                    self._set(action, sibling, place=place)

    # -- marks, settings and values ----------------------------------------------------------------

    def mark(
        self,
        node: NodeId,
        *,
        bookmark: bool | None = None,
        tags: Sequence[str] | None = None,
        rating: int | None = None,
        note: str | None = None,
        chapter: bool | None = None,
        title: str | None = None,
    ) -> Marks:
        """Change some of a node's marks and return all of them; ``rating`` is -1, 0 or +1."""
        given = {
            "bookmark": bookmark,
            "tags": None if tags is None else tuple(tags),
            "rating": rating,
            "note": note,
            "chapter": chapter,
            "title": title,
        }
        with self._verb():
            old = self._document.tree[self._living(node)].marks
            marks = replace(old, **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]
            if not -1 <= marks.rating <= 1:
                raise Refused(f"a rating is -1, 0 or 1, not {marks.rating}")
            if any("\n" in tag or not tag for tag in marks.tags):
                raise Refused("a tag is one line with something in it")
            if marks != old:
                with self._history.action("mark", node) as action:
                    self._set_marks(action, node, marks)
            return marks

    def _set_marks(self, action: Action, node: NodeId, marks: Marks) -> None:
        old = self._document.tree[node]
        new = old.with_marks(marks)._asdict()
        if after := {name: value for name, value in new.items() if value != getattr(old, name)}:
            self._set(action, node, **after)

    def _set(self, action: Action, node: NodeId, **after: JsonValue) -> None:
        action.run(self._document, SetEntry.of(self._document.tree[node], **after))

    def put_settings(self, node: NodeId, settings: Settings) -> None:
        """What ``node`` says about itself and everything below."""
        with self._verb():
            before, after = self._document.body(self._living(node)).settings, settings_text(settings)
            if before != after:
                with self._history.action("settings", node) as action:
                    action.run(self._document, SetSettings(node, before, after))

    def rename(self, title: str) -> None:
        """The title of the story, which has at least one letter in it."""
        self.set_properties(replace(self.properties, title=title))

    def set_properties(self, properties: Properties) -> None:
        """Title, author and language, in one action; an empty language is that of the surroundings.

        Refused for a title without a letter, and for another language that has no tag (BCP 47). The one that
        a file of another program came with may stay.
        """
        title, author = (" ".join(words.split()) for words in (properties.title, properties.author))
        if not title:
            raise Refused("a story needs a title, and this one has no letter in it")
        given = properties.language.strip()
        language = language_tag(given) if given else default_language()
        if language is None and given == self.properties.language:
            language = given
        if language is None:
            raise Refused(f"{given} is no language that is known; {nearest_languages(given)}")
        before, after = asdict(self.properties), {"title": title, "author": author, "language": language}
        self._put_values("properties", before, after)

    def hoist(self, node: NodeId = ROOT) -> None:
        """Look at the subtree of ``node`` alone; of the root: at everything."""
        with self._document.change():
            before = {"hoisted": self._document.value("hoisted", ROOT)}
            self._put_values("hoist", before, {"hoisted": self._living(node)})

    def _put_values(self, verb: str, before: JsonObject, after: JsonObject) -> None:
        changes = [SetValue(key, before[key], after[key]) for key in after if before[key] != after[key]]
        if not changes:
            return
        with self._action(verb, ROOT) as action:
            for each in changes:
                action.run(self._document, each)

    def put_value(self, key: str, value: JsonValue) -> None:
        """Keep a JSON value for a face; not an action."""
        with self._document.change():
            self._document.put_value(f"x-{key}", value)

    # -- history -----------------------------------------------------------------------------------

    def undo(self) -> Action | None:
        """Undo the last action and return it; None if there is none."""
        with self._verb():
            return self._history.undo()

    def redo(self) -> Action | None:
        """Do the action again that was undone last; None if there is none."""
        with self._verb():
            return self._history.redo()


def _together(upper: Marks, lower: Marks) -> Marks:
    return Marks(
        bookmark=upper.bookmark or lower.bookmark,
        tags=tuple(dict.fromkeys((*upper.tags, *lower.tags))),
        rating=upper.rating or lower.rating,
        note="\n".join(note for note in (upper.note, lower.note) if note),
        chapter=upper.chapter or lower.chapter,
        title=upper.title or lower.title,
        visited=upper.visited,
    )
