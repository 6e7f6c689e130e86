"""What a person typed and is not on the disk yet: the one owner of such words, for an open story.

The text of the story, every sheet that is open, notes, titles, tags, and words typed into branches are handed
in with every key. Who writes them down (:mod:`srbwriter.session.recorder`) asks for them in a transaction;
until that is on the disk they stay here. Where the disk refuses, they are put into files elsewhere, and the
next start offers them. Knows the story and a folder; no screen.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

from srbwriter import paths
from srbwriter.story import ROOT, NodeId, NotSaved, Settings, Story, StoryError, backup
from srbwriter.story.diff import Edit, apply_edits, edit_between, in_one, settled
from srbwriter.story.model import JsonValue, as_list, as_object, counted
from srbwriter.story.words import count as count_words

log = logging.getLogger(__name__)

DRAFTS = "drafts"
"""The story value that holds what is on open sheets: sheet → words."""

TYPING = "typing"
"""The story value that holds words typed into running branches until a node does: a list of [node, words]."""

_LINE_CHARS = 40
_USUAL_SECONDS = 2.0  # that a save takes; a longer one is counted
_MOST_STEPS = 256  # of a text that waits for a disk that refuses
_BELOW = "below"  # a sheet of words for the story itself: "below:NODE:BRANCH"
_TEXT = ""  # the field of the story's own text; no sheet is called so
_STORY_FILE = "story"  # its file in a rescue folder; no sheet is called so either


Step = str | tuple[Edit, ...]
"""What was typed in one place, an edit to undo: the whole text after it, or edits of the text before it."""


ChangeSettings = Callable[[Settings, str], Settings]
"""Puts the words of a field into the story's settings."""


@dataclass(slots=True)
class _Field:
    """One text that is being typed. ``since`` is the moment of its oldest key that is not on the disk."""

    words: str
    on_disk: str = ""
    change: ChangeSettings | None = None  # of a field of the settings; others are drafts
    since: float | None = None
    taken: str | None = None  # what the open transaction has of it
    later: float | None = None  # the oldest key since then

    @property
    def unsaved_words(self) -> int:
        """How many words are in what differs from the text on the disk."""
        return count_words(edit_between(self.on_disk, self.words).text).words if self.since is not None else 0


@dataclass(slots=True)
class _StoryField(_Field):
    """The text of the story. ``steps`` make its words of the text on the disk."""

    steps: list[Step] = field(default_factory=list["Step"])
    place: tuple[int, int] | None = None  # the characters of the last step; None where nothing can join it
    taken_steps: int = 0  # of the open transaction

    def put(self, words: str) -> None:
        """It reads ``words`` now."""
        before, self.words = self.words, words
        self._step(words, edit_between(before, words), before)

    def edit(self, edits: Sequence[Edit]) -> None:
        """It was changed by ``edits``, which are in order and apart."""
        before, self.words = self.words, apply_edits(self.words, edits)
        one = settled(edits[0], lambda start, end: before[start:end]) if len(edits) == 1 else None
        self._step(tuple(edits), one, before)

    def _step(self, step: Step, edit: Edit | None, before: str) -> None:
        """Add ``step``, which did ``edit`` to ``before`` (None: several), or let the last one have it.

        A step keeps the place where the words were typed: at the end of a chapter or at the next one's start.
        """
        last = self.steps[-1] if len(self.steps) > self.taken_steps else None
        place, self.place = self.place, None
        if edit is not None:
            start, end = edit.start, edit.start + len(edit.text)
            if place and type(last) is type(step) and edit.start <= place[1] and edit.end >= place[0]:
                start, end = min(start, place[0]), max(end, place[1] + len(self.words) - len(before))
                self.steps.pop()
                if not isinstance(last, str | None) and not isinstance(step, str):
                    step = (in_one(last[0], step[0], before),)
            self.place = start, end
        self.steps.append(step)
        if len(self.steps) > _MOST_STEPS and self.taken is None:
            self.steps, self.place = [self.words], None


@dataclass(frozen=True, slots=True)
class SaveState:
    """Whether all that was typed is on the disk; else how old the oldest key is, and what is in the way.

    ``words`` are counted only while there is trouble.
    """

    saved: bool
    seconds: float = 0.0
    trouble: StoryError | None = None
    words: int = 0

    def __str__(self) -> str:
        if self.trouble is not None:
            return f"NOT SAVED: {counted(self.words, 'word')}, {self.seconds:.0f} s, {_in_short(self.why)}"
        if self.saved:
            return "saved"
        return "saving" if self.seconds < _USUAL_SECONDS else f"saving for {self.seconds:.0f} s"

    @property
    def why(self) -> str:
        """Why the disk refuses, in a few words; empty without trouble."""
        return self.trouble.short if isinstance(self.trouble, NotSaved) else str(self.trouble or "")


def _in_short(why: str) -> str:
    """As much of ``why`` as fits into a line with other things."""
    return why if len(why) <= _LINE_CHARS else f"{why[: _LINE_CHARS - 1].rstrip()}…"


class Typing:
    """The unsaved words of ``story``.

    Args:
        set_text: makes a text the story's, within the transaction that is open.
        rescue: the folder that words go into when the story cannot take them, a file for each text in a
            folder of this run. What an earlier run left there stays.
        clock: seconds that only go forward.
    """

    def __init__(
        self, story: Story, set_text: Callable[[str], object], rescue: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._story, self._set_text, self._clock = story, set_text, clock
        self.folder = rescue / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{time.time_ns() % 10**9:09}"
        self._lock = threading.Lock()
        self._fields: dict[str, _Field] = {}
        self._dropped: set[str] = set()  # sheets that were closed, and whose draft is still on the disk
        self._dropping: set[str] = set()  # those of them that the open transaction takes off
        self._trouble: StoryError | None = None
        self._rescued: dict[str, str] = {}
        self.on_key = list[Callable[[], object]]()
        """Called with every key that is not on the disk yet, by whoever typed it."""
        self.changes = 0
        """How often somebody typed into the text of the story."""
        self.on_unsaved: Callable[[], object] = lambda: None
        """Called with the first such key, by whoever typed it."""
        self.held: AbstractContextManager[object] = contextlib.nullcontext()
        """Entered by who does not want anything written down meanwhile by somebody else."""

    # -- what a person does, on any thread -------------------------------------------------------------

    def edit(self, *edits: Edit) -> None:
        """The person has changed the text of the story by ``edits``, which are in order and apart.

        Their places are those of the text before all of them.
        """
        if _TEXT not in self._fields:
            self.shown(self._story.text(self._story.current))
        with self._typed(_TEXT):
            self._story_field().edit(edits)

    def text(self, whole: str) -> None:
        """The story reads ``whole`` now, as the person typed it."""
        with self._typed(_TEXT):
            self._story_field().put(whole)

    def shown(self, whole: str) -> None:
        """The person is shown ``whole``, which is the story as it is on the disk."""
        with self._lock:
            self._fields[_TEXT] = _StoryField(whole, on_disk=whole)

    def _story_field(self) -> _StoryField:
        field = self._fields.setdefault(_TEXT, _StoryField(""))
        assert isinstance(field, _StoryField)
        return field

    def drop(self, name: str) -> None:
        """The sheet is closed; its words are kept elsewhere, or not wanted.

        Its draft goes with the next transaction: the one of the verb that takes the words.
        """
        on_disk = name in drafts(self._story)  # before the lock: who writes has the story and waits for that
        with self._lock:
            if self._fields.pop(name, None) is not None or on_disk:
                self._dropped.add(name)
        self._tell()

    def sheet(self, name: str, words: str) -> None:
        """The open sheet called ``name`` reads ``words`` now."""
        with self._typed(name):
            self._fields.setdefault(name, _Field("")).words = words

    def setting(self, name: str, words: str, change: ChangeSettings, on_disk: str) -> None:
        """A field of the story's settings reads ``words`` now; ``change`` puts them into the settings.

        All words typed into one field are one action of the story. ``on_disk`` is what the field said when it
        was opened.
        """
        with self._typed(name):
            field = self._fields.setdefault(name, _Field("", on_disk))
            field.words, field.change = words, change

    @contextlib.contextmanager
    def _typed(self, name: str) -> Generator[None]:
        """A key changes the field called ``name`` inside."""
        now = self._clock()
        with self._lock:
            was_saved = all(field.since is None for field in self._fields.values())
            self._dropped.discard(name)
            yield
            self.changes += name == _TEXT
            field = self._fields[name]
            if field.since is None:
                field.since = now
            if field.taken is not None and field.later is None:
                field.later = now
        self._tell()
        if was_saved:
            self.on_unsaved()

    def _tell(self) -> None:
        for listener in self.on_key:
            listener()

    # -- what writes them down does, one transaction at a time -----------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether there is anything to write."""
        with self._lock:
            return bool(self._dropped) or any(field.since is not None for field in self._fields.values())

    @property
    def text_waits(self) -> bool:
        """Whether words of the story itself are to be written."""
        return self.waiting_text is not None

    @property
    def waiting_text(self) -> str | None:
        """The whole text of the story as the person typed it; None where the story has it."""
        with self._lock:
            field = self._fields.get(_TEXT)
            return field.words if field is not None and field.since is not None else None

    def write(self) -> None:
        """Put everything into the story, within the transaction that is open. Raises StoryError."""
        with self._lock:
            unsaved = {name: field for name, field in self._fields.items() if field.since is not None}
            for field in unsaved.values():
                field.taken, field.later = field.words, None
            sheets = {n: f.words for n, f in unsaved.items() if n != _TEXT and f.change is None}
            settings = {n: (f.words, f.change) for n, f in unsaved.items() if f.change is not None}
            self._dropping = set(self._dropped)
            gone = set(self._dropped)
            steps, saved, words = list[Step](), 0, ""
            if _TEXT in unsaved:
                field = self._story_field()
                field.taken_steps = len(field.steps)
                steps, saved, words = [*field.steps], len(field.on_disk), field.words
        if any(isinstance(step, tuple) for step in steps) and self._story.chars() != saved:
            steps = [words]  # the story is not the one that was edited: the text is, whatever became of that
        for step in steps:
            if isinstance(step, str):
                self._set_text(step)
            else:
                self._story.replace(*step)
        for name, (said, change) in settings.items():
            self._story.put_settings(ROOT, change(self._story.own_settings(ROOT), said), unit=name)
        gone.update(settings)  # what an earlier run left of them
        if sheets or (gone and drafts(self._story)):
            kept = drafts(self._story) | sheets
            gone.update(name for name in sheets if _for_story(name) and not sheets[name].strip())
            self._story.put_value(DRAFTS, {name: kept[name] for name in kept if name not in gone})

    def written(self) -> None:
        """What :meth:`write` took is on the disk."""
        with self._lock:
            for field in self._fields.values():
                if field.taken is not None:
                    field.since, field.on_disk = field.later, field.taken
                    if isinstance(field, _StoryField):
                        del field.steps[: field.taken_steps]
                        field.taken_steps = 0
                    field.taken = field.later = None
            self._dropped -= self._dropping
            self._dropping.clear()
            self._trouble = None
            words, self._rescued = self._rescued, {}
        if words:
            shutil.rmtree(self.folder, ignore_errors=True)

    def put_back(self) -> None:
        """The transaction came to nothing: what :meth:`write` took still waits."""
        with self._lock:
            for field in self._fields.values():
                field.taken = field.later = None
            self._story_field().taken_steps = 0
            self._dropping.clear()

    def refused(self, error: StoryError) -> None:
        """The story does not take the words: they are put into files elsewhere meanwhile."""
        with self._lock:
            self._trouble = error
        self.rescue()

    # -- look ------------------------------------------------------------------------------------------

    @property
    def state(self) -> SaveState:
        with self._lock:
            since = [field.since for field in self._fields.values() if field.since is not None]
            if not since:
                return SaveState(self._trouble is None, 0.0, self._trouble)
            trouble = self._trouble
            words = sum(field.unsaved_words for field in self._fields.values()) if trouble is not None else 0
            return SaveState(False, self._clock() - min(since), trouble, words)

    # -- where the story cannot take them --------------------------------------------------------------

    def rescue(self) -> Path | None:
        """Put all unsaved words into the rescue folder; None if there are none, or no disk takes them."""
        with self._lock:
            unsaved = {name: field.words for name, field in self._fields.items() if field.since is not None}
            changed = {name: words for name, words in unsaved.items() if self._rescued.get(name) != words}
        if not unsaved:
            return None
        try:
            for name, words in changed.items():
                paths.write_atomic(_rescued_file(self.folder, name), words.encode("utf-8", "replace"))
            backup.claim(self.folder.parent, self._story.file)
        except OSError as error:
            log.error("the words that the disk refuses cannot be put elsewhere: %s", error)
            return None
        with self._lock:
            self._rescued.update(unsaved)
        return self.folder


@dataclass(frozen=True, slots=True)
class Rescued:
    """What :meth:`Typing.rescue` put into ``folder`` in an earlier run: words by sheet, the story's by ""."""

    folder: Path
    words: dict[str, str]

    def take(self, story: Story) -> None:
        """Put them where they belong, as one thing to undo. Raises StoryError; they stay in the folder."""
        with story.together():
            for sheet in filter(_for_story, self.words):
                _give_place(story, _node_of(sheet), self.words[sheet])
            sheets = {name: words for name, words in self.words.items() if name and not _for_story(name)}
            story.put_value(DRAFTS, drafts(story) | sheets)
            if (text := self.words.get(_TEXT)) is not None:
                story.set_text(text)

    def clear(self) -> None:
        """They are where they belong, or nobody wants them."""
        shutil.rmtree(self.folder, ignore_errors=True)


def rescued(rescue: Path) -> Rescued | None:
    """The newest words that earlier runs put below ``rescue``; None if there are none."""
    folders = (folder for folder in rescue.iterdir() if folder.is_dir()) if rescue.is_dir() else ()
    found = (Rescued(folder, _words_in(folder)) for folder in sorted(folders, reverse=True))
    return next((one for one in found if one.words), None)


def _words_in(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in folder.glob("*.txt"):
        with contextlib.suppress(OSError):
            name = _TEXT if file.stem == _STORY_FILE else unquote(file.stem)
            found[name] = file.read_bytes().decode("utf-8", "replace")
    return found


def _rescued_file(folder: Path, name: str) -> Path:
    return folder / f"{quote(name, safe=' ') or _STORY_FILE}.txt"


class Draft:
    """The words on one sheet, which ``sheet`` names in a word or two."""

    def __init__(self, typing: Typing, story: Story, sheet: str) -> None:
        self._typing, self._sheet = typing, sheet
        left = None if _for_story(sheet) else drafts(story).get(sheet)
        self.words = left if isinstance(left, str) else None
        """What was on the sheet when the program died; None if it was closed as it should be."""

    @staticmethod
    def below(node: NodeId, branch: int) -> str:
        """The sheet of words for the story itself, typed for ``branch``.

        Should nobody close it, they become a node below ``node`` at the next start.
        """
        return f"{_BELOW}:{node}:{branch}"

    def typed(self, words: str) -> None:
        """The sheet reads ``words`` now."""
        self._typing.sheet(self._sheet, words)

    def drop(self) -> None:
        """The sheet is closed: see :meth:`Typing.drop`."""
        self._typing.drop(self._sheet)

    def give(self, words: str, take: Callable[[str], bool]) -> bool:
        """Let ``take`` have the words; says what it says.

        The draft goes in the transaction of the verb that takes them, never before. It stays where ``take``
        says False or raises.
        """
        taken = False
        with self._typing.held:
            self.drop()
            try:
                taken = take(words)
            finally:
                if not taken:
                    self.typed(words)
        return taken


def sheets_left(story: Story) -> list[str]:
    """The sheets that have words of an earlier start on them."""
    return [sheet for sheet in drafts(story) if not _for_story(sheet)]


def drafts(story: Story) -> dict[str, JsonValue]:
    """Words by sheet, as the story has them."""
    return dict(as_object(story.value(DRAFTS)))


# -- words typed into branches that are being written ------------------------------------------------------


def hand_over(story: Story, node: NodeId, words: str) -> None:
    """Keep ``words`` for the branch that ends in ``node`` until a node holds them."""
    story.put_value(TYPING, [*_handed_over(story), [node, words]])


def arrived(story: Story, words: str) -> None:
    """A node holds ``words`` now."""
    waiting = _handed_over(story)
    for index, entry in enumerate(waiting):
        if isinstance(entry, list) and words in entry:
            del waiting[index]
            story.put_value(TYPING, waiting)
            return


def place_handed_over(story: Story) -> int:
    """Words that no branch took up become nodes of the story. Says how many. Raises StoryError."""
    handed = _handed_over(story)
    if not handed:
        return 0
    count = 0
    with story.together():
        for entry in handed:
            match entry:
                case [int(node), words]:
                    count += _give_place(story, str(node), words)
                case _:
                    log.warning("typed words without a place: %r", entry)
        story.put_value(TYPING, [])
    return count


def take_up(story: Story) -> int:
    """After a crash: words that were meant for the story become nodes of it. Says how many."""
    kept = drafts(story)
    for_branches = [sheet for sheet in kept if _for_story(sheet)]
    if story.read_only is not None or not (for_branches or _handed_over(story)):
        return 0
    try:
        with story.together():
            count = place_handed_over(story)
            count += sum(_give_place(story, _node_of(sheet), kept.pop(sheet)) for sheet in for_branches)
            story.put_value(DRAFTS, kept)
            return count
    except StoryError as error:  # they stay where they are until the next start
        log.warning("words of before cannot be put into the story yet: %s", error)
        return 0


def _give_place(story: Story, place: str, words: JsonValue) -> bool:
    """Make ``words`` a node below ``place``, or below the root where that is gone; False for no words."""
    if not (isinstance(words, str) and words.strip()):
        return False
    living = place.isdecimal() and story.is_living(int(place))
    story.add(int(place) if living else ROOT, [words], "writer")
    return True


def _for_story(sheet: str) -> bool:
    """Whether the words on a sheet are words for the story itself."""
    return sheet.startswith(f"{_BELOW}:")


def _node_of(sheet: str) -> str:
    """The node that such words belong below, as the sheet's name has it."""
    return sheet.split(":")[1]


def _handed_over(story: Story) -> list[JsonValue]:
    return list(as_list(story.value(TYPING)))
