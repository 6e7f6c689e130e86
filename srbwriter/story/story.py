"""A story: the one object through which a story's tree is read and changed.

Any thread may call any method: one verb runs at a time, and readers never wait for a disk. When a verb
returns, its change is on the disk, or will be with the :meth:`Story.together` around it; a verb that raises
changed nothing. Nothing here knows an engine or a screen.

The work of the verbs is in one module for each subject: :mod:`.text` (text), :mod:`.arranging` (the tree,
marks and properties), :mod:`.chapters` and :mod:`.branches` (what a model writes). Their functions take the
:class:`~.document.Document` and, if the verb can be undone, its action.
"""

from __future__ import annotations

import json
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
    SecondFile,
    Settings,
    Span,
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
    """An open story. The methods that read it are in :class:`~srbwriter.story.reader.Reader`.

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
        document.on_revert.append(self._end_settings_unit)  # reverted action numbers are reused
        self._closed = False

    # -- open and close ----------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path | str, title: str = "") -> Story:
        """Create a story file, and its folder. Raises NotAStory if it exists, NotMade if that fails."""
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
        """Create a story file from a draft. Raises DraftError, NotAStory or NotMade; then no file is left."""
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
        """Open an existing story. If it cannot be written to, :attr:`read_only` says why.

        Before a story of an older version is upgraded, a copy of it goes below ``backups`` (the program's own
        backup folder by default); if that fails, the story is read-only.

        Raises NotAStory, TooNew, or NotSaved without room to upgrade an old file or to copy a damaged one.
        """
        opened = open_story(Path(path), readonly=readonly, backups=backups)
        try:
            try:
                story = cls(opened)
            except (DamagedStory, *UNREADABLE) as error:  # a large file, which was not checked whole
                problem = error.problem if isinstance(error, DamagedStory) else f"its tree is broken: {error}"
                opened.close()
                opened = recovered(opened.path, problem)
                story = cls(opened)
            if not len(story):  # the program ended while it was creating this story
                story._begin("")
            return story
        except BaseException:
            opened.close()
            raise

    def close(self) -> None:
        """Close the file. The changes of all verbs that returned are on the disk."""
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

    def set_apart(self, title: str) -> None:
        """Make this copy of another story independent: give it ``title`` and a UUID of its own.

        Raises Refused for a title without a letter.
        """
        with self.together():
            self.rename(title)
            self._document.put_value("uuid", str(uuid4()))

    @property
    def file(self) -> Path:
        """The path of the story file: a second one, after another program has replaced the first."""
        return self._opened.store.path

    @property
    def second_file(self) -> SecondFile | None:
        """What was done after another program had replaced the file; None if none has."""
        return self._opened.store.second_file

    @property
    def damage(self) -> Damage | None:
        """The unreadable parts of a damaged file; None for an intact one."""
        return self._opened.damage

    def refresh(self) -> None:
        """Read the index again, in a read-only view of a story that another process is writing."""
        with self._lock:
            if self.read_only is not None:
                self._document.load()

    def use_token_sizes(self, sizes: TokenSizes | None) -> None:
        """Use ``sizes`` for the lengths of tokens, so that a cut in generated text keeps its ids."""
        self._document.token_sizes = sizes

    # -- verbs -------------------------------------------------------------------------------------

    @contextmanager
    def together(self) -> Generator[None]:
        """Run all verbs inside as one transaction: all are on the disk afterwards, or none happened.

        If one of them raises, the whole transaction fails, even if its error was caught inside.
        """
        with self._document.change():
            yield

    @contextmanager
    def _verb(self) -> Generator[None]:
        """Run a verb as one transaction, and end the current unit of typing."""
        with self._document.change():
            self._editor.end_unit()
            yield

    @contextmanager
    def _action(self, verb: str, node: NodeId) -> Generator[Action]:
        """Run a verb that is one action on ``node``."""
        with self._verb(), self._history.action(verb, node) as action:
            yield action

    # -- text --------------------------------------------------------------------------------------

    def set_text(self, text: str, node: NodeId | None = None) -> NodeId:
        """Make ``text`` the text from the root to the end of ``node`` (the current one).

        Returns the node at which the text ends now, which becomes the current one. Edited nodes change in
        place; nodes cut off at the end of the text stay as a branch; all others stay as they are.
        """
        with self._document.writing:
            return self._editor.set_text(text, self.current if node is None else node)

    def replace(self, *edits: Edit, node: NodeId | None = None) -> NodeId:
        """Apply ``edits`` to the text from the root to the end of ``node`` (the current one), as one action.

        The edits are in order and disjoint, and their places are those of the text before all of them. Nodes
        change as by :meth:`set_text`, but no texts are compared. Returns the node at which the text ends now,
        which becomes the current one. Raises Refused for an edit that is not within the text.
        """
        with self._document.writing:
            return self._editor.replace(edits, self.current if node is None else node)

    def rewrite(self, start: int, end: int, spans: Sequence[Span]) -> None:
        """Replace characters ``start`` to ``end`` of the current text by ``spans``, which a model wrote.

        One action. The spans keep their tokens, and so does the text around them; nodes change in place.
        Raises Refused for a passage that is empty or not within the text.
        """
        with self._action("rewrite", self.current) as action:
            self._editor.rewrite_passage(action, start, end, tuple(spans), self.current)

    def append(self, text: str, node: NodeId | None = None) -> NodeId:
        """Type ``text`` at the end of ``node`` (the current one); return the node that holds it.

        That is ``node`` itself if a person wrote it and nothing follows it, else a new child.
        """
        with self._document.change():
            return self._editor.append(self.current if node is None else node, well_formed(text))

    def edit(self, node: NodeId, text: str) -> NodeId:
        """Make ``text`` the whole text of ``node``; return the node that holds it.

        A node that a model wrote stays as it is, with all its descendants, and the edit becomes a sibling.
        """
        with self._document.change():
            return self._editor.rewrite(node, well_formed(text))

    def end_typing(self) -> None:
        """End the current unit of typing: the next keystroke starts an action of its own."""
        with self._document.writing:
            self._editor.end_unit()
            self._end_settings_unit()

    def _end_settings_unit(self) -> None:
        self._settings_unit = "", 0

    # -- the tree ----------------------------------------------------------------------------------

    def add(
        self, parent: NodeId, texts: Sequence[str], author: Author = "writer", *, stand: bool = False
    ) -> list[NodeId]:
        """Add ``texts`` as branches below ``parent``; with ``stand``, move to the last one.

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
        """Pick ``node``, or its first ``at`` characters, as the current node; the rest becomes its child.

        Ancestors in the bin are restored, so that the picked text is readable from its beginning.
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
        """Make ``node`` the current one and mark it read. This is not an action."""
        with self._document.change():
            self._document.check_living(node)
            arranging.set_visited(self._document, node, True)
            self._document.put_value("current", node)

    def mark_visited(self, node: NodeId, visited: bool = True) -> None:
        """Mark ``node`` read or unread, without going there."""
        with self._document.change():
            arranging.set_visited(self._document, node, visited)

    def split(self, node: NodeId, at: int) -> NodeId:
        """Move the text from ``at`` on, with all children of ``node``, into a new child; return the child."""
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
        """Join ``node`` to its parent and return that; siblings stay below a copy of the parent."""
        with self._action("merge", node) as action:
            parent = self._document.check_parent(node, "merged")
            if parent == ROOT:
                raise Refused(f"node {node} has no parent with text to merge with")
            arranging.merge(self._document, action, parent, node)
            if action.was == node:
                action.became = parent
            return parent

    def delete(self, node: NodeId) -> None:
        """Move ``node`` to the bin, with all its descendants."""
        with self._action("delete", node) as action:
            parent = self._document.check_parent(node, "deleted")
            if node in self._document.tree.upward(action.was):
                action.became = parent
            arranging.set_entry(self._document, action, node, state=State.BINNED)

    def restore(self, node: NodeId) -> None:
        """Take ``node`` out of the bin, with all its ancestors."""
        with self._action("restore", node) as action:
            if self._document.tree[node].state == State.ABSORBED:
                self._document.check_kept(node)
            arranging.take_out_of_bin(self._document, action, node)

    def reorder(self, node: NodeId, index: int) -> None:
        """Move ``node`` to position ``index`` (from 0) among its siblings."""
        with self._action("reorder", node) as action:
            self._document.check_parent(node, "moved")
            arranging.reorder(self._document, action, node, index)

    def move(self, node: NodeId, parent: NodeId) -> None:
        """Move ``node``, with all its descendants, below ``parent``, as the last of its children.

        Numbers, texts, tokens and marks stay; inherited settings are those of the new place. Raises Refused
        if ``parent`` is ``node`` or follows it, and while a model writes at either.
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

    def set_heading(self, node: NodeId, title: str) -> None:
        """Give ``node`` a heading with ``title``; empty for a scene break."""
        with self._action("heading", self._document.check_living(node)) as action:
            chapters.set_heading(self._document, action, node, well_formed(title))

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
        note: str | None = None,
        chapter: bool | None = None,
        title: str | None = None,
    ) -> Marks:
        """Change some of a node's marks and return all of them."""
        given = {
            "bookmark": bookmark,
            "tags": None if tags is None else tuple(tags),
            "note": note,
            "chapter": chapter,
            "title": title,
        }
        with self._verb():
            old = self._document.tree[self._document.check_living(node)].marks
            marks = replace(old, **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]
            if any("\n" in tag or not tag for tag in marks.tags):
                raise Refused("a tag is one line with something in it")
            if marks != old:
                with self._history.action("mark", node) as action:
                    arranging.set_marks(self._document, action, node, marks)
            return marks

    def put_settings(self, node: NodeId, settings: Settings, unit: str = "") -> None:
        """Set the settings of ``node``, which its descendants inherit.

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
        """Set the title of the story. Raises Refused for an empty one."""
        self.set_properties(replace(self.properties, title=title))

    def set_properties(self, properties: Properties) -> None:
        """Set title, author and language as one action; an empty language is that of the locale.

        Raises Refused for an empty title, and for a language without a BCP 47 tag, unless it is the present
        one, which may come from another program's file.
        """
        before = self.properties
        self._put_values(
            "properties", asdict(before), asdict(arranging.checked_properties(properties, before))
        )

    def _put_values(self, verb: str, before: JsonObject, after: JsonObject) -> None:
        changes = [SetValue(key, before[key], after[key]) for key in after if before[key] != after[key]]
        if not changes:
            return
        with self._action(verb, ROOT) as action:
            for each in changes:
                action.run(self._document, each)

    def put_value(self, key: str, value: JsonValue) -> None:
        """Keep a JSON value for an interface; this is not an action."""
        with self._document.change():
            self._document.put_value(f"x-{key}", value)

    def put_meta(self, node: NodeId, key: str, value: JsonValue) -> None:
        """Keep a JSON value with a node; this is not an action."""
        with self._document.change():
            kept = self._document.body(node).meta
            self._document.set_body(node, meta=json.dumps({**json.loads(kept or "{}"), key: value}))

    def put_local_value(self, key: str, value: JsonValue) -> None:
        """Keep a JSON value for an interface in this file only: no export has it. Not an action."""
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
        """Redo the action that was undone last, and return it; None if there is none."""
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
        """Add ``n`` empty branches for a model to write; ``sampling`` is one for all, or one for each.

        This is not an action: generated text is never undone.
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
        """Add text to a branch. ``lead`` is the part of the first ids already there (token healing)."""
        if logprobs and len(logprobs) != len(ids):
            raise ValueError(f"{len(ids)} ids and {len(logprobs)} logprobs")
        if text or ids:
            with self._document.change():
                branches.stream(self._document, branch, text, ids, logprobs, lead)

    def replace_stream(
        self, branch: NodeId, text: str = "", ids: Sequence[int] = (), seed: int | None = None
    ) -> NodeId:
        """Restart a branch with ``text``; return its new first node, by which it is known from now on.

        The text written so far stays as a node with the old number. Without a ``seed`` the old one stays.
        """
        with self._document.change():
            return branches.begin_again(self._document, branch, text, ids, seed)

    def carry_marks(self, old: NodeId, new: NodeId) -> None:
        """Copy the bookmark of ``old`` to ``new``, another version of the same branch.

        This is not an action, since it is part of what the model writes.
        """
        with self._document.change():
            tree = self._document.tree
            marks = replace(tree[new].marks, bookmark=tree[old].marks.bookmark)
            tree.set(new, **arranging.changed_fields(self._document, new, marks))

    def finish(self, branch: NodeId, reason: str) -> None:
        """Mark a branch as completely written; ``reason`` is its finish reason."""
        with self._document.change():
            branches.finish(self._document, branch, reason)

    def set_finish_reason(self, node: NodeId, reason: str) -> None:
        """Note why a branch that has been written ended: one may be killed after its end. Not an action."""
        with self._document.change():
            self._document.set_body(node, finish=reason)

    def pick_as(self, parent: NodeId, text: str, original: str, end: NodeId | None = None) -> NodeId:
        """Pick ``text``, an edited version of a model's ``original``, below ``parent``; return its node.

        With ``end``, the nodes from ``parent`` down to ``end`` begin with ``original``. They stay as they
        are, and unchanged text keeps its tokens.
        """
        with self._action("pick", parent) as action:
            self._document.check_kept(parent)
            self._document.check_unwritten(parent)
            arranging.take_out_of_bin(self._document, action, parent)
            return branches.add_picked(self._document, action, parent, well_formed(text), original, end)

    def target(self, branch: NodeId) -> NodeId:
        """Return the node that gets a branch's text now."""
        with self._lock:
            return self._document.written(branch).node

    # -- out of the file ---------------------------------------------------------------------------

    def to_draft(self, progress: OnProgress = no_progress) -> StoryDraft:
        """Return the whole tree as it is now, including the bin, as plain values."""
        with self._lock, self._document.one_moment():
            return convert.to_draft(self, self._document, progress)

    def snapshot(self, folder: Path, name: str) -> Path:
        """Save a named copy below ``folder``, which is never removed. Raises NotSaved."""
        return backup.snapshot(self.file, self.backup_folder(folder), name)

    def recover(self, target: Path, title: str) -> Path:
        """Save this view of a damaged story as a new, writable story called ``title``; return ``target``.

        The damaged file stays as it is. Raises NotAStory if ``target`` exists, or NotSaved.
        """
        with self._lock:
            backup.put_down(self._opened.store.db, target)
        with Story.open(target) as recovered:
            recovered.rename(title)
        return target

    def backup_folder(self, folder: Path) -> Path:
        """Return the folder for copies of this story below ``folder``; moving the file does not change it."""
        return backup.own_folder(self._document.value("uuid"), self.file, folder)
