"""Damaged files: what is left is read, what is lost is told, the original is left alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from srbwriter.story import Blocked, DamagedStory, ReadOnlyStory, Story
from srbwriter.story.check import check
from tests.story.branches import WORDS


def damage(path: Path, table: str, part: float) -> None:
    """Overwrite one leaf page of ``table``, chosen by ``part`` of the way through the file."""
    db = sqlite3.connect(path)
    rows = db.execute("SELECT id, text FROM body ORDER BY id").fetchall()
    db.close()
    data = bytearray(path.read_bytes())
    if table == "body":
        needle = rows[int(len(rows) * part)][1][:200].encode()
        page = data.index(needle) // 4096
    else:
        page = int(len(data) / 4096 * part)
    data[page * 4096 : page * 4096 + 4096] = b"\xa5" * 4096
    path.write_bytes(data)


def test_a_damaged_text_page_costs_only_what_stood_on_it(written: Path) -> None:
    damage(written, "body", 0.5)
    before = written.read_bytes()
    with Story.open(written) as story:
        assert story.read_only is not None
        assert story.read_only.reason is Blocked.DAMAGED
        found = story.damage
        assert found is not None
        assert found.read == 61
        text = story.text(story.current)
        for number in range(60):
            node = number + 2
            assert (f"<{number}>" in text) == (node not in found.missing_text)
        assert len(found.missing_text) < 10
        assert str(found) in story.read_only.message
        assert len(story.search("stormy", limit=99)) == 60 - len(found.missing_text)
        with pytest.raises(ReadOnlyStory):
            story.append("x")
    assert written.read_bytes() == before


@pytest.mark.parametrize("part", [0.02, 0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.97])
def test_wherever_the_damage_is_the_rest_is_read_and_the_loss_is_told(written: Path, part: float) -> None:
    damage(written, "any", part)
    before = written.read_bytes()
    with Story.open(written) as story:
        found = story.damage
        assert story.read_only is not None
        if found is None:  # a free page: nothing stood on it
            assert story.text(story.current).count("<") == 60
            return
        there = {node for node in range(2, 62) if node in story._desk.tree and story.node(node).text}
        lost = {*found.missing_nodes, *found.missing_text}
        assert there | lost == set(range(2, 62))
        for node in there - lost:
            assert story.node(node).text == f"<{node - 2}> {WORDS}"
    assert written.read_bytes() == before


def test_a_story_without_its_header_is_read(written: Path) -> None:
    data = bytearray(written.read_bytes())
    data[:100] = bytes(100)
    written.write_bytes(data)
    with Story.open(written) as story:
        assert story.damage is not None
        assert all(f"<{number}>" in story.text(story.current) for number in range(60))
    assert written.read_bytes() == bytes(data)


def test_a_story_that_was_cut_short_is_read_as_far_as_it_goes(written: Path) -> None:
    data = written.read_bytes()
    written.write_bytes(data[: len(data) // 2 // 4096 * 4096])
    with Story.open(written) as story:
        found = story.damage
        assert found is not None
        assert found.read > 5
        assert found.missing_nodes or found.missing_text


def test_damage_in_a_large_story_is_met_and_remembered(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srbwriter.story.open.SMALL_BYTES", 0)
    damage(written, "body", 0.5)
    with Story.open(written) as story:
        assert story.damage is None  # nobody has looked
        with pytest.raises(DamagedStory, match="open it again"):
            story.text(story.current)
    for _ in range(2):
        with Story.open(written) as story:
            assert story.damage is not None
            assert "search index" in str(story.damage)
            assert all(f"<{number}>" in story.text(story.current) for number in range(60))


def test_nodes_that_lost_their_place_are_shown_below_the_root(written: Path) -> None:
    db = sqlite3.connect(written)
    db.execute("UPDATE node SET parent = 999 WHERE id = 30")
    db.commit()
    db.close()
    with Story.open(written) as story:
        assert story.damage is not None
        assert story.damage.displaced == (30,)
        assert story.text(story.current).startswith("<28>")


def test_check_names_what_is_wrong(written: Path) -> None:
    assert check(written).sound
    db = sqlite3.connect(written)
    db.execute("UPDATE node SET chars = 3 WHERE id = 7")
    db.execute("DELETE FROM body WHERE id = 8")
    db.commit()
    db.close()
    report = check(written)
    assert not report.sound
    assert report.damage is not None
    assert report.damage.doubtful == (7, 8)
    assert "nodes 7, 8" in report.damage.problem
