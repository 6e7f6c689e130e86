"""Typed words of an open story that are not on the disk yet.

Interfaces report the text of the story, of open editor dialogs (*sheets*), notes, titles and tags with
every key. The recorder (:mod:`srbwriter.session.recorder`) saves them in a
transaction; until that is on the disk they stay here. If saving fails, they are also written to files in
another folder, and the next start offers them. Imports no screen.
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
"""The name of the story value with the texts of open sheets: sheet → words."""
_HANDED = "typing"
"""The name of the story value with what was typed into running branches in version 0.5: [node, words]."""

_LINE_CHARS = 40
_USUAL_SECONDS = 2.0  # seconds of a normal save; longer ones are reported
_MOST_STEPS = 256  # of unsaved text, while saving fails
_BELOW = "below"  # prefix of a sheet with words for the story itself: "below:NODE:BRANCH"
_TEXT = ""  # the field of the story's text; no sheet has this name
_STORY_FILE = "story"  # its file in a rescue folder; no sheet has this name either


Step = str | tuple[Edit, ...]
"""Typing at one place, one step of undo: the whole text after it, or edits of the text before it."""


ChangeSettings = Callable[[Settings, str], Settings]
"""Writes the words of a field into the story's settings."""


@dataclass(slots=True)
class _Field:
    """A text that is being typed. ``since`` is the time of its oldest unsaved key."""

    words: str
    on_disk: str = ""
    change: ChangeSettings | None = None  # for fields of the settings; others are drafts
    since: float | None = None
    taken: str | None = None  # its words in the open transaction
    later: float | None = None  # time of the oldest key after those

    @property
    def unsaved_words(self) -> int:
        """Return the number of words that differ from the text on the disk."""
        return count_words(edit_between(self.on_disk, self.words).text).words if self.since is not None else 0


@dataclass(slots=True)
class _StoryField(_Field):
    """The text of the story. ``steps`` lead from the text on the disk to its words."""

    steps: list[Step] = field(default_factory=list["Step"])
    place: tuple[int, int] | None = None  # the range of the last step; None if no edit can join it
    taken_steps: int = 0  # steps in the open transaction

    def put(self, words: str) -> None:
        """Set the text to ``words``."""
        before, self.words = self.words, words
        self._step(words, edit_between(before, words), before)

    def edit(self, edits: Sequence[Edit]) -> None:
        """Apply ``edits``, which are in order and disjoint."""
        before, self.words = self.words, apply_edits(self.words, edits)
        one = settled(edits[0], lambda start, end: before[start:end]) if len(edits) == 1 else None
        self._step(tuple(edits), one, before)

    def _step(self, step: Step, edit: Edit | None, before: str) -> None:
        """Add ``step``, which did ``edit`` to ``before`` (None: several), or join it to the last one.

        A step keeps its place: the end of a chapter, or the start of the next one.
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
    """Whether all typed words are on the disk; otherwise the age of the oldest key, and the problem.

    ``words`` are counted only while there is a problem.
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
        """Why saving fails, in a few words; empty without a problem."""
        return self.trouble.short if isinstance(self.trouble, NotSaved) else str(self.trouble or "")


def _in_short(why: str) -> str:
    """Return ``why``, shortened for a line with other text."""
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
        """Record that the writer changed the story by ``edits``, which are in order and disjoint.

        Their places refer to the text before all of them.
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
        """Record that ``whole``, the story on the disk, is shown."""
        with self._lock:
            self._fields[_TEXT] = _StoryField(whole, on_disk=whole)

    def _story_field(self) -> _StoryField:
        field = self._fields.setdefault(_TEXT, _StoryField(""))
        assert isinstance(field, _StoryField)
        return field

    def drop(self, name: str) -> None:
        """Close a sheet whose words are stored elsewhere or discarded.

        The next transaction, that of the verb that stores the words, deletes its draft.
        """
        # Read before the lock is taken: a thread that saves holds the story and waits for the lock.
        on_disk = name in drafts(self._story)
        with self._lock:
            if self._fields.pop(name, None) is not None or on_disk:
                self._dropped.add(name)
        self._notify()

    def sheet(self, name: str, words: str) -> None:
        """Record the words of the open sheet called ``name``."""
        with self._typed(name):
            self._fields.setdefault(name, _Field("")).words = words

    def setting(self, name: str, words: str, change: ChangeSettings, on_disk: str) -> None:
        """Record the words of a field of the story's settings; ``change`` writes them into the settings.

        All words typed into one field are one action of the story. ``on_disk`` is the field's text when it
        was opened.
        """
        with self._typed(name):
            field = self._fields.setdefault(name, _Field("", on_disk))
            field.words, field.change = words, change

    @contextlib.contextmanager
    def _typed(self, name: str) -> Generator[None]:
        """Record a key that changes the field called ``name`` inside."""
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
        self._notify()
        if was_saved:
            self.on_unsaved()

    def _notify(self) -> None:
        for listener in self.on_key:
            listener()

    # -- for the recorder, one transaction at a time ---------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether there are unsaved words."""
        with self._lock:
            return bool(self._dropped) or any(field.since is not None for field in self._fields.values())

    @property
    def text_waits(self) -> bool:
        """Whether the text of the story has unsaved words."""
        return self.waiting_text is not None

    @property
    def waiting_text(self) -> str | None:
        """The whole text of the story with unsaved words; None if there are none."""
        with self._lock:
            field = self._fields.get(_TEXT)
            return field.words if field is not None and field.since is not None else None

    def write(self) -> None:
        """Write everything to the story, within the open transaction. Raises StoryError."""
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
            steps = [words]  # the story has changed since: set the whole text
        for step in steps:
            if isinstance(step, str):
                self._set_text(step)
            else:
                self._story.replace(*step)
        for name, (text, change) in settings.items():
            self._story.put_settings(ROOT, change(self._story.own_settings(ROOT), text), unit=name)
        gone.update(settings)  # drafts of an earlier run
        if sheets or (gone and drafts(self._story)):
            kept = drafts(self._story) | sheets
            gone.update(name for name in sheets if _for_story(name) and not sheets[name].strip())
            self._story.put_value(DRAFTS, {name: kept[name] for name in kept if name not in gone})

    def written(self) -> None:
        """Record that the words of :meth:`write` are on the disk."""
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
        """Queue the words of :meth:`write` again, because the transaction failed."""
        with self._lock:
            for field in self._fields.values():
                field.taken = field.later = None
            self._story_field().taken_steps = 0
            self._dropping.clear()

    def refused(self, error: StoryError) -> None:
        """Write the words to rescue files, because saving failed."""
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
        """Write all unsaved words to the rescue folder; return it, or None without words or if that fails."""
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
    """The words of an earlier :meth:`Typing.rescue` in ``folder``, by sheet; the story's by ""."""

    folder: Path
    words: dict[str, str]

    def take(self, story: Story) -> None:
        """Restore the words to the story, as one action. Raises StoryError; then they stay in the folder."""
        with story.together():
            for sheet in filter(_for_story, self.words):
                _give_place(story, _node_of(sheet), self.words[sheet])
            sheets = {name: words for name, words in self.words.items() if name and not _for_story(name)}
            story.put_value(DRAFTS, drafts(story) | sheets)
            if (text := self.words.get(_TEXT)) is not None:
                story.set_text(text)

    def clear(self) -> None:
        """Delete the folder after its words were restored or rejected."""
        shutil.rmtree(self.folder, ignore_errors=True)


def rescued(rescue: Path) -> Rescued | None:
    """Return the newest rescued words of earlier runs below ``rescue``; None if there are none."""
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
    """The saved draft of one sheet, called ``sheet``."""

    def __init__(self, typing: Typing, story: Story, sheet: str) -> None:
        self._typing, self._sheet = typing, sheet
        left = None if _for_story(sheet) else drafts(story).get(sheet)
        self.words = left if isinstance(left, str) else None
        """The words on the sheet when the program crashed; None if the sheet was closed."""

    @staticmethod
    def below(node: NodeId, branch: int) -> str:
        """Return the name of a sheet with words for the story itself, typed for ``branch``.

        If it is not closed, they become a node below ``node`` at the next start.
        """
        return f"{_BELOW}:{node}:{branch}"

    def typed(self, words: str) -> None:
        """Record the words of the sheet."""
        self._typing.sheet(self._sheet, words)

    def drop(self) -> None:
        """Close the sheet: see :meth:`Typing.drop`."""
        self._typing.drop(self._sheet)

    def give(self, words: str, take: Callable[[str], bool]) -> bool:
        """Pass the words to ``take`` and return its result.

        The draft is deleted in the transaction of the verb that stores the words, and kept if ``take``
        returns False or raises.
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
    """Return the sheets with words of an earlier run."""
    return [sheet for sheet in drafts(story) if not _for_story(sheet)]


def drafts(story: Story) -> dict[str, JsonValue]:
    """Return the stored drafts by sheet."""
    return dict(as_object(story.value(DRAFTS)))


def take_up(story: Story) -> int:
    """Add words for the story that a crash left as drafts; return their number."""
    kept, handed = drafts(story), as_list(story.value(_HANDED))
    for_story = [sheet for sheet in kept if _for_story(sheet)]
    if story.read_only is not None or not (for_story or handed):
        return 0
    try:
        with story.together():
            count = sum(_give_place(story, _node_of(sheet), kept.pop(sheet)) for sheet in for_story)
            count += sum(_give_place(story, str(node), words) for node, words in map(as_list, handed))
            story.put_value(DRAFTS, kept)
            story.put_value(_HANDED, [])
            return count
    except StoryError as error:  # they stay where they are until the next start
        log.warning("words of before cannot be put into the story yet: %s", error)
        return 0


def _give_place(story: Story, place: str, words: JsonValue) -> bool:
    """Add ``words`` as a node below ``place``, or the root if it no longer exists; False for no words."""
    if not (isinstance(words, str) and words.strip()):
        return False
    living = place.isdecimal() and story.is_living(int(place))
    story.add(int(place) if living else ROOT, [words], "writer")
    return True


def _for_story(sheet: str) -> bool:
    """Whether a sheet holds words for the story itself."""
    return sheet.startswith(f"{_BELOW}:")


def _node_of(sheet: str) -> str:
    """Return the node in the name of such a sheet, below which its words belong."""
    return sheet.split(":")[1]
