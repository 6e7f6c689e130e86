"""A story: the one object through which everyone reads and changes the tree.

Any thread may call any method: each takes the story's lock, so one verb runs at a time and a reader
waits at most for one commit. A verb that returns is on the disk; one that raises changed nothing.
Knows no engine and no screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from srbwriter.prose import Unit
from srbwriter.story import backup, exchange, opening, verbs
from srbwriter.story.branches import Branches
from srbwriter.story.desk import Desk
from srbwriter.story.draft import Author, JsonValue, Settings, StoryDraft, check_draft
from srbwriter.story.history import Action
from srbwriter.story.language import default_language
from srbwriter.story.runs import plain
from srbwriter.story.search import index
from srbwriter.story.tree import VISITED
from srbwriter.story.types import (
    ROOT,
    Damage,
    Marks,
    NodeId,
    Progress,
    Properties,
    Refused,
    TokenSizes,
    untold,
    within,
)
from srbwriter.story.unsaved import Unsaved, UnsavedWords
from srbwriter.story.words import end_of, well_formed


class Story(Branches):
    """An open story.

    How to look at it stands in :class:`~srbwriter.story.reader.Reader`, how branches are written in
    :class:`~srbwriter.story.branches.Branches`.

    Verbs raise NoSuchNode, Refused, ReadOnlyStory or NotSaved, all of them StoryError.
    """

    def __init__(self, opened: opening.Opened) -> None:
        self._opened = opened
        super().__init__(Desk(opened.store, opened.read_only))
        self._unsaved = UnsavedWords()
        self._closed = False

    # -- open and close ----------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path | str, title: str = "") -> Story:
        """A new story file. Raises NotAStory if the file exists, NotSaved if it cannot be made."""
        opened = opening.create_story(Path(path))
        try:
            story = cls(opened)
            story._begin(title)
        except BaseException:
            opened.close()
            raise
        return story

    def _begin(self, title: str) -> None:
        with self._desk.change():
            self._desk.add(None, (), "writer")
            self._desk.put_value("title", " ".join(title.split()) or self.file.stem)
            self._desk.put_value("current", ROOT)
            self._desk.put_value("uuid", str(uuid4()))
            self._desk.put_value("language", default_language())

    @classmethod
    def from_draft(cls, path: Path | str, draft: StoryDraft, progress: Progress = untold) -> Story:
        """A new story file from a draft. Raises DraftError, NotAStory or NotSaved; then no file is left."""
        check_draft(draft)
        story = cls.create(path, draft.title)
        try:
            exchange.fill(story._desk, draft, within(progress, 0, 0.8))
            index(story._desk, progress=within(progress, 0.8, 1))
        except BaseException:
            story.close()
            opening.remove(story.file)
            raise
        return story

    @classmethod
    def open(cls, path: Path | str, *, readonly: bool = False, backups: Path | None = None) -> Story:
        """An existing story. If it cannot be written to, :attr:`read_only` says why.

        A copy of a story of an older version goes into ``backups`` before it is brought up to date.

        Raises NotAStory, TooNew, or NotSaved if an old file could not be brought up to date.
        """
        opened = opening.open_story(Path(path), readonly=readonly, backups=backups)
        try:
            story = cls(opened)
            if not len(story):  # the program died while it was making this story
                story._begin("")
            return story
        except BaseException:
            opened.close()
            raise

    def close(self) -> None:
        """Write what is pending and let go of the file. Raises NotSaved and stays open if it cannot."""
        with self._lock:
            if self._closed:
                return
            if self.read_only is None:
                self.retry()
                self._streams.flush()
            self._closed = True
        self._streams.close()
        with self._lock:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
                self._desk.load()

    def use_token_sizes(self, sizes: TokenSizes | None) -> None:
        """How long tokens are, so that a cut through generated text keeps the ids on both sides of it."""
        self._desk.token_sizes = sizes

    # -- words -------------------------------------------------------------------------------------

    def append(self, text: str, node: NodeId | None = None) -> NodeId:
        """Type at the end of ``node`` (the current one); returns the node that holds the words.

        They go into ``node`` itself if a person wrote it and nothing follows it, else into a new child.
        """
        return self._type(Unsaved("append", self.current if node is None else node, well_formed(text)))

    def edit(self, node: NodeId, text: str, *, overwrite: bool = False) -> NodeId:
        """Make ``text`` the whole text of ``node``; returns the node that holds it.

        Generated text stays and the edit becomes a sibling, unless ``overwrite``. Keystrokes in one
        place coalesce into one action.
        """
        return self._type(Unsaved("overwrite" if overwrite else "edit", node, well_formed(text)))

    def end_typing(self) -> None:
        """Whatever is typed next can be undone on its own."""
        with self._lock:
            self._typewriter.stop()

    def _type(self, words: Unsaved) -> NodeId:
        with self._lock:
            return self._unsaved.attempt(words, self._type_now)

    def _type_now(self, words: Unsaved) -> NodeId:
        if words.verb == "append":
            return self._typewriter.append(words.node, words.text)
        return self._typewriter.edit(words.node, words.text, words.verb == "overwrite")

    @property
    def unsaved(self) -> tuple[Unsaved, ...]:
        """Typed words that the disk did not take, oldest first. Streamed ones are kept as well."""
        with self._lock:
            return self._unsaved.waiting

    def retry(self) -> None:
        """Save what :attr:`unsaved` holds, and streamed words. Raises NotSaved if that fails again."""
        with self._lock:
            self._unsaved.retry(self._type_now)
            self._streams.flush()

    def add(
        self, parent: NodeId, texts: Sequence[str], author: Author = "writer", *,
        instead_of: Sequence[NodeId] = (), stand: bool = False,
    ) -> list[NodeId]:
        """New sibling branches below ``parent``, from text at hand; ``stand`` at the last of them.

        Text by "imported" does not count as written today; of text that is there ``instead_of`` other
        nodes, the words beyond theirs.
        """
        with self._verb():
            if self._streams.of(parent) is not None:
                raise Refused(f"node {parent} is still being written")
            runs = [plain(well_formed(text), author) for text in texts]
            return verbs.add(
                self._desk, self._history, parent, runs, author, instead_of=instead_of, stand=stand
            )

    # -- the tree ----------------------------------------------------------------------------------

    def pick(self, node: NodeId, at: int | None = None) -> NodeId:
        """Take ``node``, or its first ``at`` characters, and stand there; the rest stays as its child."""
        with self._verb():
            return verbs.pick(self._desk, self._history, node, at)

    def pick_units(self, node: NodeId, unit: Unit, times: int = 1) -> NodeId:
        """Take the first words, sentences or paragraphs of ``node``."""
        with self._verb():
            at = end_of(self.node(node).text, unit, times=times)
            return verbs.pick(self._desk, self._history, node, at or None)

    def visit(self, node: NodeId, *, visited: bool = True) -> None:
        """Stand at ``node`` and mark it read. Moving about is not an action."""
        with self._lock, self._desk.change():
            verbs.living(self._desk, node)
            self._flag(node, visited)
            self._desk.put_value("current", node)
            self._desk.moved()

    def mark_visited(self, node: NodeId, visited: bool = True) -> None:
        """Mark ``node`` read or unread, without going there."""
        with self._lock, self._desk.change():
            self._flag(node, visited)

    def _flag(self, node: NodeId, visited: bool) -> None:
        entry = self._desk.tree[node]
        self._desk.tree.put(entry._replace(flags=entry.flags & ~VISITED | (VISITED if visited else 0)))

    def split(self, node: NodeId, at: int) -> NodeId:
        """The text from ``at`` on becomes a child with all children of ``node``; returns that child."""
        with self._verb():
            return verbs.split(self._desk, self._history, node, at)

    def merge(self, node: NodeId) -> NodeId:
        """Make ``node`` part of its parent, which is returned; siblings keep their text on a copy of it."""
        with self._verb():
            return verbs.merge(self._desk, self._history, node)

    def delete(self, node: NodeId) -> None:
        """Into the bin, with everything below."""
        with self._verb():
            verbs.delete(self._desk, self._history, node)

    def restore(self, node: NodeId) -> None:
        """Out of the bin, with whatever it hangs below."""
        with self._verb():
            verbs.restore(self._desk, self._history, node)

    def duplicate(self, node: NodeId, *, deep: bool = False) -> NodeId:
        """A copy beside ``node``; ``deep`` copies everything below as well."""
        with self._verb():
            return verbs.duplicate(self._desk, self._history, node, deep)

    def reorder(self, node: NodeId, index: int) -> None:
        """Make ``node`` the ``index``-th of its siblings, counted from 0."""
        with self._verb():
            verbs.reorder(self._desk, self._history, node, index)

    # -- marks and settings ------------------------------------------------------------------------

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
            marks = replace(self.marks(node), **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]
            verbs.mark(self._desk, self._history, node, marks)
            return marks

    def put_settings(self, node: NodeId, settings: Settings) -> None:
        """What ``node`` says about itself and everything below."""
        with self._verb():
            verbs.put_settings(self._desk, self._history, node, settings)

    def rename(self, title: str) -> None:
        """The title of the story, which has at least one letter in it."""
        self.set_properties(replace(self.properties, title=title))

    def set_properties(self, properties: Properties) -> None:
        """Title, author and language, in one action; an empty language is that of the surroundings.

        Refused for a title without a letter, and for a language that has no tag (BCP 47).
        """
        with self._verb():
            verbs.put_properties(self._desk, self._history, self.properties, properties)

    def hoist(self, node: NodeId = ROOT) -> None:
        """Look at the subtree of ``node`` alone; of the root: at everything."""
        with self._verb():
            verbs.living(self._desk, node)
            verbs.put_value(self._desk, self._history, "hoist", "hoisted", node)

    def put_value(self, key: str, value: JsonValue) -> None:
        """Keep a JSON value for a face; not an action."""
        with self._lock, self._desk.change():
            self._desk.put_value(f"x-{key}", value)

    # -- history and search ------------------------------------------------------------------------

    def undo(self) -> Action | None:
        """Undo the last action and return it; None if there is none."""
        with self._verb():
            return self._history.undo()

    def redo(self, action: int | None = None) -> Action | None:
        """Do the last undone action again, or another of :meth:`futures`; None if there is none."""
        with self._verb():
            return self._history.redo(action)

    def futures(self) -> list[int]:
        """The actions that could be done again now, the one that was done last first."""
        with self._lock:
            return self._history.futures()

    # -- out of the file ---------------------------------------------------------------------------

    def to_draft(self, progress: Progress = untold) -> StoryDraft:
        """The whole tree, the bin with it, as plain values; streamed words that wait are written first."""
        with self._lock:
            if self.read_only is None:
                self._streams.flush()
            return exchange.to_draft(self, self._desk, progress)

    def back_up(self, folder: Path, *, keep: int = backup.KEEP_DAYS) -> Path | None:
        """Today's copy below ``folder``, unless there is one. Raises NotSaved."""
        return backup.daily(self.file, self.backup_folder(folder), keep)

    def snapshot(self, folder: Path, name: str) -> Path:
        """A copy with a name below ``folder``; it is never removed. Raises NotSaved."""
        self.flush()
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
        own = self._desk.value("uuid")  # lost with the worst damage, when copies are wanted most
        return folder / str(own) if own else backup.folder_of(self.file.stem, folder)
