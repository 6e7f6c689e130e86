"""Rows that hold what they cannot, sums and all: what is left of the story can be read in every way."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story import ROOT, Settings, Story, StoryError, formats
from srbwriter.story.model import LoreEntry
from srbwriter.story.shapes import body_sum, row_sum
from srbwriter.story.store import ACTION, BODY, ENTRY
from tests.sizes import examples, some_of

COLUMNS = {"node": ENTRY.split(", "), "body": BODY.split(", "), "recipe": ["model", "sampling"]}
VALUES = ["title", "author", "language", "uuid", "current", "gaps", "written", "draft", "x-own"]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
RUNS = st.lists(st.lists(JSON, min_size=6, max_size=6), max_size=2).map(
    lambda head: json.dumps(head).encode()
)
CELL = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-1, 3)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | RUNS.map(lambda head: head + b"\\0" + bytes(24))
    | JSON.map(json.dumps)
    | st.dictionaries(st.sampled_from(["memory", "lore", "sampling", "template"]), JSON).map(json.dumps)
)
ROW = st.tuples(st.sampled_from([(t, c) for t, names in COLUMNS.items() for c in names if c != "id"]), CELL)
VALUE = st.tuples(st.sampled_from([("value", key) for key in VALUES]), JSON)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A story file with everything in it that a row can hold."""
    path = tmp_path_factory.mktemp("sound") / "story.srbw"
    with Story.create(path, "The harbour") as story:
        story.put_settings(ROOT, Settings(memory="A harbour.", lore=[LoreEntry("1", keys=["lamp"])]))
        story.append("It rained. ")
        names = story.begin_branches(story.current, 2, model="m", vocab="v", seeds=[1, 2])
        for name in names:
            story.stream(name, "The lamp went out.", [1, 2, 3], [-0.5, -0.25, -1.0])
            story.finish(name, "length")
        story.pick(names[0], 8)
        story.mark(story.current, tags=["quay"], note="dark", title="One", bookmark=True, chapter=True)
    return path


def corrupt(path: Path, place: tuple[str, str], index: int, cell: Any, summed: bool) -> None:
    """Put ``cell`` where it may not be; with ``summed`` as a program would that knows the sums."""
    table, column = place
    with closing(sqlite3.connect(path)) as db:
        db.create_function("row_total", -1, row_sum)
        db.create_function("body_total", -1, body_sum)
        if table == "value":
            row = (column, json.dumps(cell))
            db.execute("INSERT OR REPLACE INTO value VALUES (?, ?, ?)", (*row, row_sum(*row)))
        else:
            ids = [row[0] for row in db.execute(f"SELECT id FROM {table} ORDER BY id")]
            number = ids[index % len(ids)]
            db.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (cell, number))
            if summed and table != "recipe":
                columns, total = (ENTRY, "row_total") if table == "node" else (BODY, "body_total")
                db.execute(f"UPDATE {table} SET sum = {total}({columns}) WHERE id = ?", (number,))
        db.commit()


def read_everything(story: Story) -> None:
    """Ask for all that can be asked of a story that is not changed."""
    assert (story.title, story.properties, story.id, story.file) is not None
    assert (story.current, story.streaming, story.tags(), story.bin()) is not None
    assert (story.bookmarks(), story.chapters(), story.unread(), story.value("own")) is not None
    assert (story.days(), story.today(), story.words_by_author()) is not None
    for node in story.reading_order():
        found = story.node(node)
        assert "".join(span.text for span in found.spans) == found.text
        assert (story.marks(node), story.own_settings(node), story.settings(node)) is not None
        assert (story.path(node), story.siblings(node), story.words(node), story.text(node)) is not None
        story.head(node, len(found.text) // 2)
    story.search("lamp", with_bin=True)
    story.to_draft()


@settings(max_examples=examples(120, few=25))
@given(
    st.lists(st.tuples(ROW | VALUE, st.integers(0, 9), st.booleans()), min_size=1, max_size=3), st.booleans()
)
def test_what_is_left_can_be_read(
    sound: Path, faults: list[tuple[tuple[tuple[str, str], Any], int, bool]], lost: bool
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "story.srbw"
        shutil.copyfile(sound, path)
        try:
            for (place, cell), index, summed in faults:
                corrupt(path, place, index, cell, summed)
            if lost:  # whatever else there is, this story has to be salvaged
                with closing(sqlite3.connect(path)) as db:
                    db.execute("UPDATE body SET sum = sum + 1 WHERE id = 2")
                    db.commit()
        except (sqlite3.IntegrityError, sqlite3.OperationalError, UnicodeEncodeError):
            return  # SQLite does not take it, or there is no sum of it
        with Story.open(path, readonly=True) as story:
            try:
                read_everything(story)
            except StoryError:
                assert story.damage is None  # it was met now, and salvaged at the next opening


@pytest.mark.parametrize("runs", [0, 7, 1.5, "text"])
def test_runs_of_another_kind_cost_the_ids_and_nothing_else(
    sound: Path, tmp_path: Path, runs: object
) -> None:
    path = tmp_path / "story.srbw"
    shutil.copyfile(sound, path)
    corrupt(path, ("body", "runs"), 2, runs, summed=runs == 0)
    with Story.open(path) as story:
        assert story.damage is not None
        assert story.text(story.current) == "It rained. The lamp"
        read_everything(story)


HISTORY = [f"action.{name}" for name in ACTION.split(", ") if name != "id"]
HISTORY += ["value.head", "value.touched"]
DAYS = ["progress.day", "progress.generated"]


@pytest.mark.parametrize("cell", some_of([None, "x", b"\x81", "[1]", 1e300, -5], [b"\x81", "[1]"]))
@pytest.mark.parametrize("column", [*HISTORY, *DAYS])
def test_rows_of_the_history_and_of_days_raise_nothing_that_is_not_said_in_words(
    sound: Path, tmp_path: Path, column: str, cell: Any
) -> None:
    path = tmp_path / "story.srbw"
    shutil.copyfile(sound, path)
    with closing(sqlite3.connect(path)) as db, suppress(sqlite3.IntegrityError):
        table, name = column.split(".")
        if table == "value":
            row = (name, json.dumps(repr(cell)))
            db.execute("INSERT OR REPLACE INTO value VALUES (?, ?, ?)", (*row, row_sum(*row)))
        else:
            db.execute(f"UPDATE {table} SET {name} = ?", (cell,))
        if table == "action" and not isinstance(cell, bytes):  # which have no sum
            db.create_function("row_total", -1, row_sum)
            db.execute(f"UPDATE action SET sum = row_total({ACTION})")
        db.commit()
    for readonly in (True, False):
        with suppress(StoryError), Story.open(path, readonly=readonly) as story:
            read_everything(story)
            formats.write(story.to_draft(), "srbwriter")
            if story.read_only is None:
                for act in (story.undo, story.redo, partial(story.append, " More.")):
                    with suppress(StoryError):
                        act()
