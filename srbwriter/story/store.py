"""The file of a story: rows as lines of JSON, in batches.

A line is a checksum and JSON: a row is [table, key, value], where null is a row that is gone, and
["end", token, summary] ends a batch. A later row takes the place of an earlier one, and what is behind the
last end was never written whole. The random tokens of its batches tell whose file it is: another program may
have put one in its place. Of a damaged file every readable row is kept.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any
from zlib import crc32

import msgspec

from srbwriter import paths
from srbwriter.story.disk import LONGEST_NAME, FileState, lock_of, place, state_of
from srbwriter.story.model import (
    ROOT,
    Damage,
    DamagedStory,
    JsonObject,
    NotAStory,
    Progress,
    TooNew,
    as_object,
)
from srbwriter.story.node import Node, fits, node_of, packed, row_of
from srbwriter.story.tree import Action, Rows
from srbwriter.story.words import words_of

SUFFIX = ".srbw"
VERSION = 8
OLD = b"SQLite format 3\0"
"""How the files of versions before 8 begin."""

_KEY = re.compile(rb'\w{8} \["node",(\d+),')
_TAIL = 8192  # bytes at the end of a file that hold the end of its last batch


@dataclass(slots=True)
class Image:
    """What a file holds: the rows of its whole batches, their tokens, and where the first and the last end.

    A file of an older version has only its ``version``.
    """

    rows: Rows = field(default_factory=dict[tuple[str, Any], Any])
    tokens: list[str] = field(default_factory=list[str])
    first_end: int = 0
    end: int = 0
    version: int = VERSION
    summary: JsonObject = field(default_factory=dict[str, Any])
    damage: Damage | None = None

    @property
    def token(self) -> str:
        return self.tokens[-1] if self.tokens else ""

    def note_whole(self, state: FileState, token: str) -> None:
        """Note that a file in this state holds all rows in a batch."""
        self.tokens, self.end = [token], state[2] if state is not None else 0
        self.first_end = self.end


def new_token() -> str:
    return token_hex(8)


def line(value: Any) -> bytes:
    """Return ``value`` as a line of a file."""
    body = _ENCODER.encode(value).encode("utf-8", "surrogatepass")
    return b"%08x %b\n" % (crc32(body), body)


def _json_of(row: Any) -> Any:
    if isinstance(row, Node):
        return row_of(row)
    return packed(row) if isinstance(row, bytes) else astuple(row)


_FAST, _DECODER = msgspec.json.Decoder(), json.JSONDecoder()
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_json_of)
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "node": node_of, "action": Action.of, "value": lambda row: row,
    "day": lambda row: Progress(sum(row[:-1][:2]), row[-1]),  # words of two kinds in some rows
}  # fmt: skip


def lines(rows: Rows, token: str, summary: JsonObject | None = None) -> Iterator[bytes]:
    """Yield the lines of a batch."""
    for (table, key), row in rows.items():
        yield line([table, key, row])
    yield line(["end", token, summary or {}])


def read_line(raw: bytes) -> tuple[Any, bool]:
    """Return the value of a line, None for none, and whether it is as it was written."""
    body = raw[9:-1]
    try:
        try:
            value = _FAST.decode(body)
        except msgspec.DecodeError:  # it takes less than the encoder writes: no infinity, no lone surrogate
            value, _ = _DECODER.raw_decode(body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return None, False
    return value, raw[-1:] == b"\n" and raw[:8] == b"%08x" % crc32(body)


# -- write -------------------------------------------------------------------------------------------


def write_whole(path: Path, rows: Rows, token: str, *, instead: bool = False) -> FileState:
    """Write a story file durably, whole or not at all; with ``instead``, in the place of the one there.

    Raises Taken without it, if there is one, or OSError.
    """
    part = path.with_name(f".{paths.shortened(path.name, LONGEST_NAME)}.{os.getpid()}.part")
    try:
        with open(part, "wb", opener=paths.open_own) as file:
            file.write(line({"srbwriter": VERSION}))
            file.writelines(lines(rows, token, summary_of(rows)))
            file.flush()
            os.fsync(file.fileno())
        if instead:
            os.chmod(part, path.stat().st_mode & 0o777)
            paths.replace_durably(part, path)
        else:
            place(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return state_of(path)


def append(path: Path, data: bytes, end: int, seen: FileState = None) -> FileState:
    """Write batches behind the last one of a file, which ends at ``end``; return the state of the file then.

    Raises OSError, also for another file than the one that was ``seen``; then the file holds what it did.
    """
    with path.open("r+b", buffering=0) as file:
        if seen is not None and state_of(file.fileno()) != seen:
            raise OSError(errno.ESTALE, "another program has just changed the file")
        try:
            file.truncate(end)
            file.seek(end)
            if file.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise
        return state_of(file.fileno())


def summary_of(rows: Rows) -> JsonObject:
    """Return what a list of stories shows."""
    here, texts = rows.get(("value", "current"), ROOT), list[str]()
    while (row := rows.get(("node", here))) is not None:
        texts.append(row.text)
        here = row.parent
    words, nodes = words_of("".join(reversed(texts))), sum(table == "node" for table, _ in rows)
    return {"title": rows.get(("value", "title"), ""), "words": words, "nodes": nodes}


# -- read --------------------------------------------------------------------------------------------


def read(path: Path, *, torn: bool | None = None, keep_gone: bool = False) -> Image:
    """Read a story, also a damaged one.

    ``torn``: the last batch may be torn, since a program is writing there or was killed; None to find out.
    With ``keep_gone``, rows that are gone are in the image, as None.

    Raises NotAStory, TooNew, DamagedStory or OSError.
    """
    image, batch = Image(), dict[tuple[str, Any], Any]()
    doubtful, unsure = set[int](), set[int]()  # nodes in whole batches, and in the one that is read
    known = lost = bad = end = 0

    def lay() -> None:
        nonlocal doubtful
        image.rows |= batch
        doubtful = unsure | {number for number in doubtful if ("node", number) not in batch}

    with path.open("rb") as file:
        if file.read(len(OLD)) == OLD:
            return Image(version=7)
        file.seek(0)
        for raw in file:
            end += len(raw)
            value, good = read_line(raw)
            known += good
            match value:
                case [str(table), int() | str() as key, row] if good and table != "end":
                    batch[table, key] = _DECODERS[table](row) if row is not None else None
                    if unsure and table == "node":
                        unsure.discard(int(key))
                case ["end", str(token), summary] if good:
                    lay()
                    image.tokens.append(token)
                    image.first_end, image.end = image.first_end or end, end
                    image.summary = as_object(summary)
                    batch, unsure, lost, bad = {}, set[int](), lost + bad, 0
                case ["node", int(key), row] if fits(row) and row[0] == key:
                    batch["node", key] = node_of(row)
                    unsure.add(key)
                case {"srbwriter": int(version)} if good:
                    if version > VERSION:
                        raise TooNew(path, version, VERSION)
                case _:
                    if found := _KEY.match(raw):
                        unsure.add(int(found[1]))
                    else:
                        bad += 1
    if not known:
        if path.suffix == SUFFIX and end % 4096 == 0:  # of an older version, perhaps
            raise DamagedStory(path, "nothing of it can be read")
        cure = "`srbwriter import` reads texts, and the files of other programs"
        raise NotAStory(path, f"is not a story — {cure}")
    problem = ""
    if end > image.end and not (image.end and (lock_of(path).exists() if torn is None else torn)):
        lay()
        lost, problem = lost + bad, "its end is lost"
    if not keep_gone:
        for key in [key for key, row in image.rows.items() if row is None]:
            del image.rows[key]
    if lost or doubtful or problem:
        usual = "a part of it cannot be read" if lost else "some text is not as it was written"
        check_tree(image, problem or usual, doubtful)
    return image


def last_batch(path: Path) -> Image:
    """Return token, end and summary of the last batch, without reading the file if it ends well."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - _TAIL, 0))
        tail = file.read()
    match read_line(tail[tail.rfind(b"\n", 0, -1) + 1 :]):
        case (["end", str(token), summary], True):
            return Image(tokens=[token], end=size, summary=as_object(summary))
        case _:
            return read(path)


def check_tree(image: Image, problem: str, doubtful: Iterable[int] = ()) -> None:
    """Note the damage of a file, and let every node that was read hang below the root."""
    rows = image.rows
    rows.setdefault(("node", ROOT), Node(ROOT, None))
    nodes = {key: row for (table, key), row in rows.items() if table == "node"}
    missing, displaced, fine = set[int](), set[int](), {ROOT}
    for start in nodes:
        walked, here = dict[int, None](), start
        while here not in fine and here not in walked and here in nodes:
            walked[here] = None
            here = nodes[here].parent
        if here not in fine:  # its parent is lost, or it is its own ancestor
            last = next(reversed(walked))
            missing |= {here} - nodes.keys()
            displaced.add(last)
            nodes[last].parent = ROOT
        fine |= walked.keys()
    missing = missing - {None} | set(doubtful) - nodes.keys()
    ids = (tuple(sorted(some)) for some in (missing, displaced, set(doubtful) & nodes.keys()))
    image.damage = Damage(problem, len(nodes), *ids)
