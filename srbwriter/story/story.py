"""A story: the one object through which everyone reads and changes the tree.

Any thread may call any method: one verb runs at a time, and who reads waits for no disk. A verb that returns
is on the disk, or will be with the :meth:`Story.together` around it; one that raises changed nothing.
Knows no engine and no screen.

What a verb does to the nodes stands in one module for each of its subjects: :mod:`.text` (words),
:mod:`.arranging` (the tree, marks and properties), :mod:`.chapters`, :mod:`.branches` (what a model writes).
Each takes the :class:`~.document.Document` and, where the verb can be undone, its action.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Self, cast
from uuid import uuid4

from srbwriter.story import arranging, backup, branches, chapters, convert
from srbwriter.story.connection import making, remove
from srbwriter.story.diff import Edit
from srbwriter.story.document import Document
from srbwriter.story.history import Action, History, SetSettings, SetValue, Split
from srbwriter.story.languages import default_language
from srbwriter.story.model import (
    ROOT,
    Author,
    Damage,
    DamagedStory,
    JsonObject,
    JsonValue,
    Marks,
    NodeId,
    OnProgress,
    Properties,
    Refused,
    Settings,
    State,
    StoryDraft,
    TokenSizes,
    check_draft,
    no_progress,
    settings_text,
    within,
)
from srbwriter.story.open import Opened, create_story, open_story, recovered
from srbwriter.story.progress import taken
from srbwriter.story.reader import LOCAL, Reader
from srbwriter.story.search import index
from srbwriter.story.shapes import UNREADABLE
from srbwriter.story.spans import plain
from srbwriter.story.text import TextEditor
from srbwriter.story.words import well_formed


class Story(Reader):
    """An open story. How to look at it stands in :class:`~srbwriter.story.reader.Reader`.

    Verbs raise NoSuchNode, Refused, ReadOnlyStory or NotSaved, all of them StoryError.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        document = Document(opened.store, opened.read_only)
        super().__init__(document)
        self._history = History(document)
        self._clock = time.monotonic
        self._editor = TextEditor(document, self._history, lambda: self._clock())
        self._settings_unit = "", 0  # the last unit of settings, and its action
        document.on_revert.append(self._end_settings_unit)  # numbers of actions are given again
        self._closed = False

    # -- open and close ----------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path | str, title: str = "") -> Story:
        """A new story file, and the folder for it. Raises NotAStory if it exists, NotMade if it cannot be."""
        with making(Path(path)):
            opened = create_story(Path(path))
            try:
                story = cls(opened)
                story._begin(title)
            except BaseException:
                opened.close()
                remove(opened.path)
                raise
        return story

    def _begin(self, title: str) -> None:
        with self._document.change():
            self._document.add(None, (), "writer")
            self._document.put_value("title", " ".join(title.split()) or self.file.stem)
            self._document.put_value("current", ROOT)
            self._document.put_value("uuid", str(uuid4()))
            self._document.put_value("language", default_language())

    @classmethod
    def from_draft(cls, path: Path | str, draft: StoryDraft, progress: OnProgress = no_progress) -> Story:
        """A new story file from a draft. Raises DraftError, NotAStory or NotMade; then no file is left."""
        check_draft(draft)
        story = cls.create(path, draft.title)
        try:
            with making(story.file):
                convert.fill(story._document, draft, within(progress, 0, 0.8))
                index(story._document, progress=within(progress, 0.8, 1))
        except BaseException:
            story.close()
            remove(story.file)
            raise
        return story

    @classmethod
    def open(cls, path: Path | str, *, readonly: bool = False, backups: Path | None = None) -> Story:
        """An existing story. If it cannot be written to, :attr:`read_only` says why.

        A copy of a story of an older version goes below ``backups``, the program's own folder for them if
        none is given, before it is brought up to date; without the copy it is for reading only.

        Raises NotAStory, TooNew, or NotSaved without room to bring an old file up to date, or to copy a
        damaged one.
        """
        opened = open_story(Path(path), readonly=readonly, backups=backups)
        try:
            try:
                story = cls(opened)
            except (DamagedStory, *UNREADABLE) as error:  # a large file, which was not looked at whole
                problem = error.problem if isinstance(error, DamagedStory) else f"its tree is broken: {error}"
                opened.close()
                opened = recovered(opened.path, problem)
                story = cls(opened)
            if not len(story):  # the program died while it was making this story
                story._begin("")
            return story
        except BaseException:
            opened.close()
            raise

    def close(self) -> None:
        """Let go of the file. Every verb that has returned is on the disk."""
        if (watch := self._opened.watch) is not None:
            watch.stop()
        with self._document.writing, self._lock:
            if not self._closed:
                self._closed = True
                self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def checkpoint_aside(self) -> None:
        """Let a commit take one sync of the disk, and no more: for a story that somebody types in.

        What else the log needs is done now, and later by a thread of its own.
        """
        if self._opened.watch is not None:
            self._opened.watch.checkpoint_aside()

    def set_apart(self, title: str) -> None:
        """Make this copy of another story one of its own, called ``title``: no copies or drafts in common.

        Raises Refused for a title without a letter.
        """
        with self.together():
            self.rename(title)
            self._document.put_value("uuid", str(uuid4()))

    @property
    def file(self) -> Path:
        """Where the story is kept."""
        return self._opened.path

    @property
    def damage(self) -> Damage | None:
        """What could not be read; None for a sound file."""
        return self._opened.damage

    def refresh(self) -> None:
        """Read the index again, in a read-only view of a story that someone else is writing."""
        with self._lock:
            if self.read_only is not None:
                self._document.load()

    def use_token_sizes(self, sizes: TokenSizes | None) -> None:
        """How long tokens are, so that a cut through generated text keeps the ids on both sides of it."""
        self._document.token_sizes = sizes

    # -- verbs -------------------------------------------------------------------------------------

    @contextmanager
    def together(self) -> Generator[None]:
        """All verbs inside are one transaction: on the disk afterwards, or nothing of them happened.

        If one of them raises, the whole does, also where its error was caught inside.
        """
        with self._document.change():
            yield

    @contextmanager
    def _verb(self) -> Generator[None]:
        """A verb: all of it happens or nothing, and typing ends as a unit."""
        with self._document.change():
            self._editor.end_unit()
            yield

    @contextmanager
    def _action(self, verb: str, node: NodeId) -> Generator[Action]:
        """A verb that is one action, done to ``node``."""
        with self._verb(), self._history.action(verb, node) as action:
            yield action

    # -- text --------------------------------------------------------------------------------------

    def set_text(self, text: str, node: NodeId | None = None) -> NodeId:
        """Make ``text`` the text from the beginning to the end of ``node`` (the current one).

        Returns the node at whose end it ends now, which is the current one then. Nodes that are touched
        change in place, or give way at the end of the text; all others stay.
        """
        with self._document.writing:
            return self._editor.set_text(text, self.current if node is None else node)

    def replace(self, *edits: Edit, node: NodeId | None = None) -> NodeId:
        """Change the text from the beginning to the end of ``node`` (the current one), as one action.

        ``edits`` are in order and apart, and their places are those of the text before all of them. Nodes
        change as by :meth:`set_text`, but no texts are compared. Returns the node at whose end the text ends
        now, which is the current one then. Raises Refused for an edit that is not within the text.
        """
        with self._document.writing:
            return self._editor.replace(edits, self.current if node is None else node)

    def append(self, text: str, node: NodeId | None = None) -> NodeId:
        """Type at the end of ``node`` (the current one); returns the node that holds the words.

        They go into ``node`` itself if a person wrote it and nothing follows it, else into a new child.
        """
        with self._document.change():
            return self._editor.append(self.current if node is None else node, well_formed(text))

    def edit(self, node: NodeId, text: str) -> NodeId:
        """Make ``text`` the whole text of ``node``; returns the node that holds it.

        Generated text stays as it is, with all that follows it, and the edit becomes a sibling.
        """
        with self._document.change():
            return self._editor.rewrite(node, well_formed(text))

    def end_typing(self) -> None:
        """Whatever is typed next can be undone on its own."""
        with self._document.writing:
            self._editor.end_unit()
            self._end_settings_unit()

    def _end_settings_unit(self) -> None:
        self._settings_unit = "", 0

    # -- the tree ----------------------------------------------------------------------------------

    def add(
        self, parent: NodeId, texts: Sequence[str], author: Author = "writer", *, stand: bool = False
    ) -> list[NodeId]:
        """New sibling branches below ``parent``, from text at hand; ``stand`` at the last of them.

        Text by "imported" does not count as written today, nor by "model" before it is picked.
        """
        with self._action("add", parent) as action:
            self._document.check_living(parent)
            self._document.check_unwritten(parent)
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
            self._document.check_kept(node)
            length = self._document.tree[node].chars
            if at is not None and not 0 < at <= length:
                raise Refused(f"node {node} has {length} characters, not {at}")
            arranging.take_out_of_bin(self._document, action, node)
            if at is not None and at < length:
                action.run(self._document, Split(node, at))
            arranging.set_visited(self._document, node, True)
            action.picked = taken(self._document.tree, action.was, node)
            action.became = node
            return node

    def visit(self, node: NodeId) -> None:
        """Stand at ``node`` and mark it read. Moving about is not an action."""
        with self._document.change():
            self._document.check_living(node)
            arranging.set_visited(self._document, node, True)
            self._document.put_value("current", node)

    def mark_visited(self, node: NodeId, visited: bool = True) -> None:
        """Mark ``node`` read or unread, without going there."""
        with self._document.change():
            arranging.set_visited(self._document, node, visited)

    def split(self, node: NodeId, at: int) -> NodeId:
        """The text from ``at`` on becomes a child with all children of ``node``; returns that child."""
        with self._action("split", node) as action:
            self._document.check_parent(node, "split")
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
        with self._action("merge", node) as action:
            parent = self._document.check_parent(node, "merged")
            if parent == ROOT:
                raise Refused(f"node {node} has no parent with text to merge with")
            arranging.merge(self._document, action, parent, node)
            if action.was == node:
                action.became = parent
            return parent

    def delete(self, node: NodeId) -> None:
        """Into the bin, with everything below."""
        with self._action("delete", node) as action:
            parent = self._document.check_parent(node, "deleted")
            if node in self._document.tree.upward(action.was):
                action.became = parent
            arranging.set_entry(self._document, action, node, state=State.BINNED)

    def restore(self, node: NodeId) -> None:
        """Out of the bin, with whatever it hangs below."""
        with self._action("restore", node) as action:
            if self._document.tree[node].state == State.ABSORBED:
                self._document.check_kept(node)
            arranging.take_out_of_bin(self._document, action, node)

    def duplicate(self, node: NodeId, *, deep: bool = False) -> NodeId:
        """A copy beside ``node``; ``deep`` copies everything below as well."""
        with self._action("duplicate", node) as action:
            self._document.check_parent(node, "duplicated")
            return arranging.copy(self._document, action, node, deep)

    def reorder(self, node: NodeId, index: int) -> None:
        """Make ``node`` the ``index``-th of its siblings, counted from 0."""
        with self._action("reorder", node) as action:
            self._document.check_parent(node, "moved")
            arranging.reorder(self._document, action, node, index)

    def move(self, node: NodeId, parent: NodeId) -> None:
        """Hang ``node``, with all that follows it, below ``parent``, as the last of its children.

        Numbers, texts, tokens and marks stay; inherited settings are those of the new place. Refused where
        ``parent`` is ``node`` or follows it, and while a model writes at either.
        """
        document = self._document
        with self._action("move", node) as action:
            above = document.check_parent(node, "moved")
            if node in document.tree.upward(document.check_living(parent)):
                problem = "itself" if node == parent else f"node {parent}, which follows it"
                raise Refused(f"node {node} cannot be moved below {problem} — choose a node outside of it")
            if parent == above:
                raise Refused(f"node {node} follows node {parent} already")
            document.check_unwritten(parent)
            for written in document.live.values():
                if node in document.tree.upward(written.node):
                    document.check_unwritten(written.node)
            arranging.set_entry(document, action, node, parent=parent, place=document.tree.last_place(parent))

    # -- chapters ----------------------------------------------------------------------------------

    def begin_chapter(self, at: int, title: str) -> NodeId:
        """Let a chapter begin at character ``at`` of the text; without a title, a scene. Returns its node.

        The node that holds the character is split there. At the end of the text the new node is empty.
        """
        with self._action("heading", self.current) as action:
            if not 0 <= at <= self.chars():
                raise Refused(f"the text has no character {at}")
            return chapters.begin(self._document, action, at, well_formed(title))

    def set_heading(self, node: NodeId, title: str | None) -> None:
        """Give ``node`` a heading with ``title``; empty for a scene break, None for no heading."""
        with self._action("heading", self._document.check_living(node)) as action:
            chapters.set_heading(self._document, action, node, None if title is None else well_formed(title))

    def move_chapter(self, place: int, *, later: bool) -> int:
        """Let the chapter that holds character ``place`` change places with the next or previous one.

        Nodes keep numbers, tokens and marks; white space between chapters stays where it is. What was not
        picked stays below the node that it follows. Returns the character at which the chapter starts now.
        Refused without such a chapter.
        """
        with self._action("move_chapter", self.current) as action:
            return chapters.move(self._document, action, self.text(self.current), place, later)

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
            old = self._document.tree[self._document.check_living(node)].marks
            marks = replace(old, **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]
            if not -1 <= marks.rating <= 1:
                raise Refused(f"a rating is -1, 0 or 1, not {marks.rating}")
            if any("\n" in tag or not tag for tag in marks.tags):
                raise Refused("a tag is one line with something in it")
            if marks != old:
                with self._history.action("mark", node) as action:
                    arranging.set_marks(self._document, action, node, marks)
            return marks

    def put_settings(self, node: NodeId, settings: Settings, unit: str = "") -> None:
        """Make ``settings`` what ``node`` says about itself and everything below, as one action.

        Changes with the same ``unit`` are one action until another action or :meth:`end_typing`.
        """
        with self._verb():
            before = self._document.body(self._document.check_living(node)).settings
            after = settings_text(settings)
            if before == after:
                return
            last = self._history.get(self._history.head) if unit and unit == self._settings_unit[0] else None
            if last is not None and last.id == self._settings_unit[1]:
                change = cast(SetSettings, last.changes[0])
                change.after = after
                change.do(self._document)
                self._history.save(last)
                return
            with self._history.action("settings", node) as action:
                action.run(self._document, SetSettings(node, before, after))
            self._settings_unit = unit, action.id

    def rename(self, title: str) -> None:
        """The title of the story, which has at least one letter in it."""
        self.set_properties(replace(self.properties, title=title))

    def set_properties(self, properties: Properties) -> None:
        """Title, author and language, in one action; an empty language is that of the surroundings.

        Refused for a title without a letter, and for another language that has no tag (BCP 47). The one that
        a file of another program came with may stay.
        """
        before = self.properties
        self._put_values(
            "properties", asdict(before), asdict(arranging.checked_properties(properties, before))
        )

    def hoist(self, node: NodeId = ROOT) -> None:
        """Look at the subtree of ``node`` alone; of the root: at everything."""
        with self._document.change():
            before = {"hoisted": self._document.value("hoisted", ROOT)}
            self._put_values("hoist", before, {"hoisted": self._document.check_living(node)})

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

    def put_local_value(self, key: str, value: JsonValue) -> None:
        """Keep a JSON value for a face in this file only: no export has it. Not an action."""
        with self._document.change():
            self._document.put_value(f"{LOCAL}{key}", value)

    # -- history -----------------------------------------------------------------------------------

    @property
    def last_action(self) -> int:
        """The number of the last action that was done and not undone; 0 at the beginning."""
        return self._history.head

    def undo(self) -> Action | None:
        """Undo the last action and return it; None if there is none."""
        with self._verb():
            return self._history.undo()

    def redo(self) -> Action | None:
        """Do the action again that was undone last; None if there is none."""
        with self._verb():
            return self._history.redo()

    # -- branches that a model writes -------------------------------------------------------------

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
        with self._document.change():
            return branches.begin(self._document, parent, each, numbers, model, vocab)

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
        if text or ids:
            with self._document.change():
                branches.stream(self._document, branch, text, ids, logprobs, lead)

    def replace_stream(self, branch: NodeId, text: str = "", ids: Sequence[int] = ()) -> NodeId:
        """The branch begins again, with ``text``; returns its name from now on.

        What it had written stays as a node of its own, with the old number.
        """
        with self._document.change():
            return branches.begin_again(self._document, branch, text, ids)

    def carry_marks(self, old: NodeId, new: NodeId) -> None:
        """``new`` is another take of the branch ``old``, and has its bookmark and its rating too.

        No action that could be undone: it is a part of what the model writes.
        """
        with self._document.change():
            tree = self._document.tree
            kept = tree[old].marks
            marks = replace(tree[new].marks, bookmark=kept.bookmark, rating=kept.rating)
            tree.set(new, **arranging.changed_fields(self._document, new, marks))

    def interject(self, branch: NodeId, text: str) -> NodeId:
        """Words of the writer at the end of a branch that goes on being written; returns their node."""
        with self._action("type", self.target(branch)) as action:
            return branches.interject(self._document, action, branch, text)

    def finish(self, branch: NodeId, reason: str) -> None:
        """The branch is written."""
        with self._document.change():
            branches.finish(self._document, branch, reason)

    def set_finish_reason(self, node: NodeId, reason: str) -> None:
        """Note why a branch that has been written ended: one may be killed after its end. Not an action."""
        with self._document.change():
            self._document.set_body(node, finish=reason)

    def pick_as(self, parent: NodeId, text: str, original: str, end: NodeId | None = None) -> NodeId:
        """Take ``text`` below ``parent``, which somebody made of a model's ``original``; returns its node.

        With ``end``, the nodes from ``parent`` down to that begin with ``original``: they stay as they are,
        and what was not changed keeps its tokens.
        """
        with self._action("pick", parent) as action:
            self._document.check_kept(parent)
            self._document.check_unwritten(parent)
            arranging.take_out_of_bin(self._document, action, parent)
            return branches.add_picked(self._document, action, parent, well_formed(text), original, end)

    def target(self, branch: NodeId) -> NodeId:
        """The node that a branch's text goes to now."""
        with self._lock:
            return self._document.written(branch).node

    # -- out of the file ---------------------------------------------------------------------------

    def to_draft(self, progress: OnProgress = no_progress) -> StoryDraft:
        """The whole tree, the bin with it, as plain values; as it is now, whoever is writing it."""
        with self._lock, self._document.one_moment():
            return convert.to_draft(self, self._document, progress)

    def snapshot(self, folder: Path, name: str) -> Path:
        """A copy with a name below ``folder``; it is never removed. Raises NotSaved."""
        return backup.snapshot(self.file, self.backup_folder(folder), name)

    def recover(self, target: Path, title: str) -> Path:
        """What this view holds, as a story of its own called ``title``, which can be written.

        The way on from a damaged file, which stays as it is. Raises NotAStory if ``target`` is there, or
        NotSaved.
        """
        with self._lock:
            backup.put_down(self._opened.store.db, target)
        with Story.open(target) as recovered:
            recovered.rename(title)
        return target

    def backup_folder(self, folder: Path) -> Path:
        """Where below ``folder`` the copies of this story lie; it stays the same if the file moves."""
        return backup.own_folder(self._document.value("uuid"), self.file, folder)
