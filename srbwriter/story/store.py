"""The file of a story: rows as lines of JSON, in batches.

A line is a checksum and JSON: a row is [table, key, value], where null is a row that is gone, and
["end", token, summary] ends a batch. A later row takes the place of an earlier one, and what is behind the
last end was never written whole. The random token is that of the batch: by it a file is known that another
program has put in place. The log beside the file holds such batches too. Of a damaged file every readable
row is kept.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, cast
from zlib import crc32

from srbwriter import paths
from srbwriter.story.disk import NO_STORY, log_of
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


class Replaced(Exception):
    """The file holds another token: another program has replaced it."""


@dataclass(slots=True)
class Image:
    """What a file holds: the rows of its whole batches, the last token, where it ends, and what is behind it.

    A file of an older version has only its ``version``.
    """

    rows: Rows = field(default_factory=dict[tuple[str, Any], Any])
    token: str = ""
    end: int = 0
    behind: Rows | None = None
    version: int = VERSION
    summary: JsonObject = field(default_factory=dict[str, Any])
    damage: Damage | None = None


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


_DECODER = json.JSONDecoder()
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_json_of)
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "node": node_of, "action": Action.of, "value": lambda row: row,
    "day": lambda row: Progress(sum(row[:-1][:2]), row[-1]),  # words of two kinds in some rows
}  # fmt: skip


def _decoded(table: str, row: Any) -> Any:
    return None if row is None else _DECODERS[table](row)


def lines(rows: Rows, token: str, summary: JsonObject | None = None) -> Iterator[bytes]:
    """Yield the lines of a batch."""
    for (table, key), row in rows.items():
        yield line([table, key, row])
    yield line(["end", token, summary or {}])


def read_line(raw: bytes) -> tuple[Any, bool]:
    """Return the value of a line, None for none, and whether it is as it was written."""
    body = raw[9:-1]
    try:
        value, _ = _DECODER.raw_decode(body.decode("utf-8", "surrogatepass"))
        return value, raw[-1:] == b"\n" and raw[:8] == b"%08x" % crc32(body)
    except (ValueError, RecursionError):
        return None, False


# -- write -------------------------------------------------------------------------------------------


def write_whole(path: Path, rows: Rows, token: str) -> None:
    """Write a new story file durably. Raises OSError, and leaves no file then."""
    with open(path, "xb", opener=paths.open_own) as file:
        try:
            file.write(line({"srbwriter": VERSION}))
            file.writelines(lines(rows, token, summary_of(rows)))
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink()
            raise


def append(path: Path, rows: Rows, token: str, before: str, summary: JsonObject) -> None:
    """Write a batch behind the last one of the file, whose token is ``before``.

    Raises Replaced for another file, or OSError; then the file holds what it did.
    """
    last = last_batch(path)
    if last.token != before:
        raise Replaced
    with path.open("r+b") as file:
        file.truncate(last.end)
        file.seek(last.end)
        try:
            file.writelines(lines(rows, token, summary))
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            os.truncate(path, last.end)
            raise


def summary_of(rows: Rows) -> JsonObject:
    """Return what a list of stories shows."""
    here, texts = rows.get(("value", "current"), ROOT), list[str]()
    while (row := rows.get(("node", here))) is not None:
        texts.append(row.text)
        here = row.parent
    words, nodes = words_of("".join(reversed(texts))), sum(table == "node" for table, _ in rows)
    return {"title": rows.get(("value", "title"), ""), "words": words, "nodes": nodes}


# -- read --------------------------------------------------------------------------------------------


def read(path: Path, upto: str = "") -> Image:
    """Read a story, also a damaged one; with ``upto``, up to the batch of that token.

    Raises NotAStory, TooNew, DamagedStory or OSError.
    """
    with path.open("rb") as file:
        if file.read(len(OLD)) == OLD:
            return Image(version=7)
        file.seek(0)
        image, known, lost, doubtful = _read_lines(file, path, upto)
    if not known:
        if path.suffix == SUFFIX and path.stat().st_size % 4096 == 0:  # of an older version, perhaps
            raise DamagedStory(path, "nothing of it can be read")
        raise NotAStory(path, NO_STORY)
    if lost or doubtful:
        check_tree(
            image, "a part of it cannot be read" if lost else "some text is not as it was written", doubtful
        )
    return image


def _read_lines(file: BinaryIO, path: Path, upto: str) -> tuple[Image, int, int, set[int]]:
    """Return what a file holds, how many lines are as written, how many are lost, and the doubtful nodes."""
    image, batch = Image(), dict[tuple[str, Any], Any]()
    known = lost = end = bad = 0
    doubtful: set[int] = set()
    for raw in file:
        end += len(raw)
        value, good = read_line(raw)
        known += good
        match value:
            case ["end", str(token), summary] if good:
                _lay(image.rows, batch)
                image.token, image.end, image.summary = token, end, as_object(summary)
                batch, lost, bad = {}, lost + bad, 0
                if token == upto:
                    break
            case [str(table), int() | str() as key, row] if good:
                batch[table, key] = _decoded(table, row)
                if table == "node" and doubtful:
                    doubtful.discard(cast(int, key))
            case ["node", int(key), row] if fits(row) and row[0] == key:
                batch["node", key] = node_of(row)
                doubtful.add(key)
            case {"srbwriter": int(version)} if good:
                if version > VERSION:
                    raise TooNew(path, version, VERSION)
            case _:
                if found := _KEY.match(raw):
                    doubtful.add(int(found[1]))
                else:
                    bad += 1
    if batch or bad:
        image.behind = batch
    return image, known, lost + (bad if not image.end else 0), doubtful


def _lay(rows: Rows, more: Rows) -> None:
    """Lay later rows over ``rows``."""
    for key, row in more.items():
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row


def last_batch(path: Path) -> Image:
    """Return token, end and summary of the last batch, without reading the file if it ends well."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - _TAIL, 0))
        tail = file.read()
    match read_line(tail[tail.rfind(b"\n", 0, -1) + 1 :]):
        case (["end", str(token), summary], True):
            return Image(token=token, end=size, summary=as_object(summary))
        case _:
            return read(path)


def check_tree(image: Image, problem: str, doubtful: Iterable[int] = ()) -> None:
    """Note the damage of a file, and let every node that was read hang below the root."""
    image.damage = None
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


# -- the log beside it -------------------------------------------------------------------------------


@dataclass(slots=True)
class Log:
    """What a log holds: the token that it builds on, and (token, rows) of each batch."""

    base: str = ""
    story: str = ""
    batches: list[tuple[str, Rows]] = field(default_factory=list[tuple[str, Rows]])

    def belongs_to(self, token: str) -> bool:
        """Whether the log is that of a file with ``token``."""
        return token in (self.base, *(name for name, _ in self.batches))

    @property
    def rows(self) -> Rows:
        return {key: row for _, rows in self.batches for key, row in rows.items()}


def read_log(path: Path) -> Log | None:
    """Return the log beside the story at ``path``, as far as it was written whole; None if there is none."""
    found, batch = Log(), dict[tuple[str, Any], Any]()
    try:
        with log_of(path).open("rb") as file:
            for raw in file:
                match read_line(raw):
                    case ({"base": str(base), "story": str(story)}, True):
                        found.base, found.story = base, story
                    case (["end", str(token), _], True):
                        found.batches.append((token, batch))
                        batch = {}
                    case ([str(table), key, row], True):
                        batch[table, key] = _decoded(table, row)
                    case _:
                        break
    except OSError:
        return None
    return found


def with_log(path: Path, image: Image, log: Log) -> Image:
    """Return what the file and a log that belongs to it hold together; token and end are the log's base."""
    base = read(path, upto=log.base)
    if base.token != log.base:  # the file was written anew since then
        base = image
    _lay(base.rows, log.rows)
    base.behind = None
    return base
