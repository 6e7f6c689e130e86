"""The library: opening stories, a folder of them, those opened recently, and copies.

A copy is a whole story file: one a day, rolling, and snapshots with a name. It appears complete or not at
all, and never overwrites a file. Its name holds the time at which it was made, because the times of a file
change when it is moved. Callers decide when to make a copy.
"""

from __future__ import annotations

import json
import re
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from srbwriter import paths
from srbwriter.story import journal
from srbwriter.story.journal import SUFFIX, FileLock, RowFile, in_brief, numbered, saving, write_story
from srbwriter.story.model import ROOT, DamagedStory, FileError, NotAStory, NotSaved, ReadOnly, counted
from srbwriter.story.node import Node
from srbwriter.story.tree import Rows
from srbwriter.story.upgrade import copy_old

MOST_RECENT = 30
KEEP_DAYS = 14
DELETED = "deleted"
"""The name of the copy that a deleted story becomes. Named copies are never removed."""

_NAME = re.compile(r"(?:day|named) (\d{4}-\d\d-\d\d)(?: (\d\d\.\d\d\.\d\d) (.+))?")

# -- open --------------------------------------------------------------------------------------------


def open_story(path: Path, *, readonly: bool = False, lock: FileLock | None = None) -> RowFile:
    """Read the story at ``path``, for writing if that is possible and ``readonly`` is false.

    ``lock`` is its lock if the caller has it. Raises NotAStory.
    """
    path = paths.expanded(path).resolve()
    torn, said = journal.lock_of(path).exists(), f"{path.name} was opened for reading only"
    why = ReadOnly("asked", said) if readonly else None
    try:
        if why is None and lock is None:
            try:
                path.open("r+b").close()
                lock = FileLock(path)
            except OSError as error:
                reason = "in use" if isinstance(error, BlockingIOError) else "closed"
                why = ReadOnly(reason, f"{said}: {in_brief(error)}")
        file = journal.read(path, torn=torn)
        if file.problem:
            if lost := hang_below_root(file.rows):
                file.problem += f"; {counted(lost, 'passage')} lost, what followed is at its beginning now"
            why = ReadOnly("damaged", f"{said}, for it is damaged: {file.problem}")
        elif lock is not None:
            try:
                with saving(path):
                    file = _bring_up_to_date(file)
            except NotSaved as error:  # the disk takes nothing now
                why = ReadOnly("closed", f"{said}: {error.problem}; its last words are kept")
        file.rows = {key: row for key, row in file.rows.items() if row is not None}
        file.read_only = why
        if why is None:
            file.lock, lock = lock, None
        return file
    except OSError as error:
        raise NotAStory(path, in_brief(error)) from error
    finally:
        if lock is not None:
            lock.close()


def create_story(path: Path, rows: Rows) -> RowFile:
    """Create a story file with ``rows``. Raises OSError; FileExistsError if there is one."""
    path = paths.expanded(path)
    if not path.parts[0].startswith("~"):  # an unknown user's home stays unexpanded
        paths.make_folder(path.parent)
    file = write_story(path.resolve(), rows)
    file.lock = FileLock(file.path)
    return _bring_up_to_date(file)  # a file that was here before may have left words


def _bring_up_to_date(file: RowFile) -> RowFile:
    """Upgrade a file of an older version, and take up the changes that another program has left.

    That program was killed, or its disk took no words. The file holds its changes, unless their last token is
    missing in it. A file that ends with the last token that it held, or a later one, gets them; any other was
    put in its place, perhaps an older copy, and they go into a second one.
    """
    path, kept = file.path, RowFile(journal.changes_of(file.path))
    if not file.token:
        folder = own_folder(file.rows.get(("value", "uuid")), path, paths.backup_dir())
        snapshot(path, folder, "before the upgrade from version 7")
        file = write_story(path, file.rows, instead=file)
        journal.drop(*(Path(f"{path}{suffix}") for suffix in ("-wal", "-shm", "-journal")))
    with suppress(FileNotFoundError, NotADirectoryError, FileError):
        kept = journal.read(kept.path, torn=True)
    if kept.tokens and kept.token not in file.tokens:
        same = kept.rows.get(("value", "uuid")) == file.rows.get(("value", "uuid"))  # else another story
        rows, held = (file.rows if same else {}) | kept.rows, kept.summary.get("held", "")
        order = {held: -1} | {token: place for place, token in enumerate(kept.tokens)}
        if order.get(file.token, -2) >= order[held]:
            file.rows, summary = rows, journal.summary_of(rows)
            file.append(journal.batch_of(kept.rows, kept.token, summary), kept.token)
        else:
            hang_below_root(rows)
            file.second_file = journal.write_second(path, rows).path
    journal.drop(kept.path)
    return file


def hang_below_root(rows: Rows) -> int:
    """Let every node whose parent is lost hang below the root; return how many are lost."""
    rows.setdefault(("node", ROOT), Node(ROOT, None))
    nodes = {key: row for (table, key), row in rows.items() if table == "node"}
    lost, fine = set[int | None](), {ROOT}
    for start in nodes:
        walked, here = dict[int, None](), start
        while here not in fine and here not in walked and here in nodes:
            walked[here] = None
            here = nodes[here].parent
        if here not in fine:  # its parent is lost, or it is its own ancestor
            lost |= {here} - nodes.keys()
            nodes[next(reversed(walked))].parent = ROOT
        fine |= walked.keys()
    return len(lost)


# -- lists -------------------------------------------------------------------------------------------


class StoryInfo(NamedTuple):
    """A story as shown in a list; ``words`` counts the current path. ``problem`` says why it has none."""

    path: Path
    title: str
    words: int
    modified: float
    problem: str = ""


def info(path: Path) -> StoryInfo:
    """Read what a list shows of a file."""
    last, problem = RowFile(path), ""
    try:
        last = journal.last_batch(path)
        problem = "is damaged" if last.problem else ""
    except (OSError, FileError) as error:
        problem = error.problem if isinstance(error, FileError) else f"cannot be read: {in_brief(error)}"
    title, words = last.summary.get("title") or path.stem, last.summary.get("words", 0)
    *_, changed = journal.state_of(path) or (0,)
    return StoryInfo(path, title, words, changed / 1e9, problem)


def stories(folder: Path) -> list[StoryInfo]:
    """Return the stories in ``folder``, and those opened recently elsewhere, last changed first."""
    found = {path.resolve(): path for path in (*recent_stories(), *folder.glob(f"*{SUFFIX}"))}
    return sorted(map(info, found.values()), key=lambda story: (-story.modified, story.title))


def file_name(title: str) -> str:
    """Return a readable file name, without suffix, for a story called ``title``."""
    words = re.sub(r"[^\w\- ]+", "", title).strip().replace(" ", "-")[:80]
    return paths.shortened(words, journal.LONGEST_NAME) or "story"


def free_path(folder: Path, title: str) -> Path:
    """Return an unused path in ``folder`` for a new story called ``title``."""
    return numbered(folder, file_name(title))


def recent_stories() -> list[Path]:
    """Return the files of recently opened stories, newest first."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        rows = json.loads(paths.recent_file().read_text("utf-8"))
        return [path for row in rows if (path := Path(row["path"])).exists()]
    return []


def remember(path: Path) -> None:
    """Put a story first among the recent ones. Errors while writing the list are ignored."""
    files = dict.fromkeys([paths.expanded(path).resolve(), *recent_stories()])
    rows = [{"path": str(file)} for file in files][:MOST_RECENT]
    with suppress(OSError):
        paths.write_atomic(paths.recent_file(), json.dumps(rows, indent=1).encode())


# -- copies ------------------------------------------------------------------------------------------


class Backup(NamedTuple):
    """A copy; ``name`` is empty for a daily one. ``at`` is in Unix seconds; midnight for a daily one."""

    path: Path
    name: str
    at: float


def daily(source: Path, folder: Path, keep: int = KEEP_DAYS, now: float | None = None) -> None:
    """Make today's copy unless it exists; remove the oldest daily ones beyond ``keep``.

    Raises NotSaved or DamagedStory.
    """
    target = folder / f"{time.strftime('day %Y-%m-%d', time.localtime(now))}{SUFFIX}"
    if not target.exists():
        copy_story(source, target)
    others = [copy for copy in backups(folder) if not copy.name and copy.path != target]
    journal.drop(*(old.path for old in others[keep - 1 :]))


def snapshot(source: Path, folder: Path, name: str, now: float | None = None, **values: str) -> Path:
    """Make a named copy, which stays until it is deleted by hand. Raises NotSaved or DamagedStory."""
    slug = paths.shortened(re.sub(r"[^\w .,()-]+", "_", name).strip()[:80], journal.LONGEST_NAME)
    stem = time.strftime("named %Y-%m-%d %H.%M.%S ", time.localtime(now)) + (slug or "snapshot")
    return copy_story(source, numbered(folder, stem), **values)


def discard(source: Path, folder: Path) -> Path:
    """Move a closed story into ``folder``, as a copy called DELETED, which holds its place.

    Raises NotSaved if it is open or there is no room, or DamagedStory; then the file stays.
    """
    with saving(source), closing(FileLock(source.resolve())):
        copy = snapshot(source, folder, DELETED, place=str(source))
        journal.remove(source)
    return copy


def restore(copy: Backup, folder: Path) -> Path:
    """Make a story of a copy, and return its file.

    A deleted story comes back to its place, and leaves the copies. Any other copy becomes a story in
    ``folder`` whose title says when it was made, so that two stories never have one title. Raises FileError.
    """
    place = open_story(copy.path, readonly=True).rows.get(("value", "place"))
    original = Path(place or free_path(folder, info(copy.path).title))
    if copy.name == DELETED and not original.exists():
        copy_story(copy.path, original)
        copy.path.unlink()
        return original
    title = f"{info(copy.path).title} {time.strftime('%Y-%m-%d %H.%M', time.localtime(copy.at))}"
    return copy_story(copy.path, free_path(folder, title), title=title, uuid=str(uuid4()))


def backups(folder: Path) -> list[Backup]:
    """Return all copies in ``folder``, newest first, by the dates in their names."""
    found: list[Backup] = []
    for path in folder.glob(f"*{SUFFIX}"):
        if match := _NAME.fullmatch(path.stem):
            at = time.mktime(time.strptime(f"{match[1]} {match[2] or '00.00.00'}", "%Y-%m-%d %H.%M.%S"))
            found.append(Backup(path, match[3] or "", at))
    return sorted(found, key=lambda copy: (copy.at, copy.path.name), reverse=True)


def own_folder(uuid: object, file: Path, folder: Path) -> Path:
    """Return the subfolder of ``folder`` with the copies of the story in ``file``, also after the file moved.

    ``uuid`` is the story's own. Severe damage loses it; then copies with the title are looked for.
    """
    if uuid:
        return folder / str(uuid)
    title, newest = info(file).title, (copy.path for own in folder.glob("*/") for copy in backups(own)[:1])
    return next((copy.parent for copy in newest if info(copy).title == title), folder / file.stem)


def copy_story(source: Path, target: Path, **values: str) -> Path:
    """Copy a story whole to the new file ``target``, also while it is being written to.

    The copy has ``values`` in the place of its own. Without any, a file of an older version stays what it is.
    Raises NotSaved, also if ``target`` exists, or DamagedStory.
    """
    with saving(target):
        file = journal.read(source)
        if file.problem:
            raise DamagedStory(source, file.problem)
        paths.make_folder(target.parent)
        if file.token or values:
            write_story(target, file.rows | {("value", key): value for key, value in values.items()})
        else:
            copy_old(source, target)
    return target
