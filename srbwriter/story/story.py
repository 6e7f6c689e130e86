"""A story: the one object through which everyone reads and changes the tree.

Any thread may call any method: one verb runs at a time, and who reads waits for no disk. A verb that returns
is on the disk, or will be with the :meth:`Story.together` around it; one that raises changed nothing.
Knows no engine and no screen.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from srbwriter.story import backup, convert
from srbwriter.story.branches import Branches
from srbwriter.story.connection import UNREADABLE, making, remove
from srbwriter.story.document import Document
from srbwriter.story.languages import default_language
from srbwriter.story.model import (
    ROOT,
    Damage,
    DamagedStory,
    OnProgress,
    StoryDraft,
    TokenSizes,
    check_draft,
    no_progress,
    within,
)
from srbwriter.story.open import Opened, create_story, open_story, recovered
from srbwriter.story.search import index


class Story(Branches):
    """An open story.

    How to look at it stands in :class:`~srbwriter.story.reader.Reader`, how it is changed in
    :class:`~srbwriter.story.edits.Edits`, how branches are written in
    :class:`~srbwriter.story.branches.Branches`.

    Verbs raise NoSuchNode, Refused, ReadOnlyStory or NotSaved, all of them StoryError.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        super().__init__(Document(opened.store, opened.read_only))
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
