"""Search finds what is there, ranks it, and reads nothing in a query as an operator."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srbwriter.story import ROOT, Story
from srbwriter.story.check import check
from srbwriter.story.migrations import STEPS, migrate
from tests.story.branches import generated


def found(story: Story, query: str) -> list[int]:
    return [hit.node for hit in story.search(query)]


@pytest.mark.parametrize(
    ("text", "old", "new", "more"),
    [
        ("The lighthouse keeper", "lighthouse", "harbour", " lit the lamp"),
        ("他去了灯塔", "灯塔", "海边", "，点了灯"),
    ],
)
def test_words_are_found_in_whatever_changed(story: Story, text: str, old: str, new: str, more: str) -> None:
    node = story.append(text)
    assert found(story, old) == [node]
    story.end_typing()
    story.edit(node, text.replace(old, new))
    assert (found(story, old), found(story, new)) == ([], [node])
    story.undo()
    assert found(story, old) == [node]
    [branch] = generated(story, node, more)
    assert found(story, more) == [branch]
    story.pick(branch, 1)
    assert found(story, more[1:]) == story.children(branch)
    story.delete(node)
    assert found(story, old) == []


def test_the_bin_is_searched_when_asked(story: Story) -> None:
    [above] = story.add(ROOT, ["nothing"])
    [node] = story.add(above, ["a heron"])
    story.delete(above)
    assert story.search("heron") == []
    [hit] = story.search("heron", with_bin=True)
    assert (hit.node, hit.binned) == (node, True)


def test_better_matches_come_first_with_a_snippet(story: Story) -> None:
    long = "word " * 60
    weak, strong = story.add(ROOT, [f"{long} heron {long}", "A heron, a heron!"])
    first, second = story.search("heron")
    assert (first.node, second.node) == (strong, weak)
    assert first.score > second.score
    assert first.snippet == "A \x02heron\x03, a \x02heron\x03!"
    assert len(second.snippet) < 120
    assert "\x02heron\x03" in second.snippet


def test_the_language_of_queries(story: Story) -> None:
    one, two = story.add(ROOT, ["the old sea wall", "the old wall by the séance"])
    assert found(story, "old wall") == [two, one] or found(story, "old wall") == [one, two]
    assert found(story, '"old wall"') == [two]
    assert found(story, "wal") and found(story, "wal ") == []
    assert found(story, "seance") == [two]
    assert found(story, "SEA wall") == [one]
    assert found(story, "") == found(story, '" "') == found(story, "...") == []


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=15)
@given(query=st.text(max_size=20) | st.text('"*^:+-()NEAR ANDORT{}', max_size=20))
def test_no_query_is_an_error(story: Story, query: str) -> None:
    story.search(query)


# -- scripts without spaces ----------------------------------------------------------------------------

SENTENCE = "他把灯塔的门推开，海风一下子灌了进来。"


@pytest.mark.parametrize(
    ("text", "there", "not_there"),
    [
        (
            SENTENCE,
            ["灯塔", "灯塔的门", "门", "一下子灌", "开，海", "来。"],
            ["塔灯", "海门", "灯的", "下。"],
        ),
        ("灯台守は古い扉を押し開けた。", ["灯台", "古い", "扉を押", "開けた"], ["古扉", "灯台が"]),
        ("コンピューターの電源", ["コンピュ", "ューター", "電源"], ["ター電"]),
        ("กินข้าวกับแม่ที่บ้าน", ["ข้าว", "แม่", "บ้าน"], ["กนข", "ขาว", "บาน"]),
        ("ລາວເປີດປະຕູ", ["ເປີດ", "ປະຕູ"], ["ປະຕຸ"]),
        ("ខ្យល់សមុទ្របានបក់ចូលមក។", ["សមុទ្រ", "បក់"], ["សមទ្រ"]),
        ("သူသည် တံခါးကို ဖွင့်လိုက်သည်။", ["တံခါး", "ဖွင့်"], ["တခါး"]),
        ("他用iPhone打了3次电话", ["iphone", "用iPhone打", "3次", "打了3", "电话"], ["phone", "用打"]),
        ("The 灯塔 keeper's séance", ["灯塔", "灯", "seance", "the 灯塔 keeper"], ["塔灯", "keep"]),
        ("ខ្ញុំ\u200bទៅ\u200bផ្ទះ 葛\U000e0100城", ["ខ្ញុំទៅ", "ទៅ\u200bផ្ទះ", "葛城"], []),  # with what is not seen
        ("𠮷野家", ["𠮷", "野家"], ["家野"]),
    ],
)
def test_words_are_found_where_nothing_parts_them(
    story: Story, text: str, there: list[str], not_there: list[str]
) -> None:
    story.add(ROOT, ["他说海。", "Another text.", "คน"])
    [node] = story.add(ROOT, [text])
    for query in there:
        for asked in (query, f"{query} ", f'"{query}"'):
            assert node in found(story, asked), asked
            snippet = next(hit.snippet for hit in story.search(asked) if hit.node == node)
            assert "\x02" in snippet and snippet.replace("\x02", "").replace("\x03", "") == text
    for query in not_there:
        assert node not in found(story, f'"{query}"'), query


def test_words_without_spaces_are_looked_for_together_and_unfinished(story: Story) -> None:
    one, two = story.add(ROOT, [SENTENCE, "海边的 lighthouse，กินข้าว"])
    assert found(story, "海风 灯塔") == [one]
    assert found(story, "海 light") == [two]
    assert found(story, "海 light ") == []
    assert found(story, "กินข") == [two]  # the vowel and the tone are still to come
    assert sorted(found(story, "海")) == [one, two]


def test_a_snippet_marks_the_place(story: Story) -> None:
    story.add(ROOT, [SENTENCE, "夜" * 300 + "灯塔" + "夜" * 300, "Use the iPhone手机 now"])
    [first, second] = story.search("灯塔")
    assert first.snippet == "他把\x02灯塔\x03的门推开，海风一下子灌了进来。"
    assert "夜夜\x02灯塔\x03夜夜" in second.snippet
    assert second.snippet[0] == second.snippet[-1] == "…"
    assert len(second.snippet) < 60
    [third] = story.search("iphone手")
    assert third.snippet == "Use the \x02iPhone手\x03机 now"


PARTS = "灯塔の門กินข้າບាន់ка1 ，。aé-"


def test_what_is_left_of_a_damaged_story_is_found(tmp_path: Path) -> None:
    path = tmp_path / "damaged.srbw"
    with Story.create(path) as story:
        [node] = story.add(ROOT, [SENTENCE])
    path.write_bytes(bytes(100) + path.read_bytes()[100:])  # without its header
    with Story.open(path) as story:
        assert story.damage is not None
        assert found(story, "灯塔") == [node]


def test_an_older_story_is_counted_and_found_anew(tmp_path: Path) -> None:
    path = tmp_path / "old.srbw"
    texts = {1: "", 2: SENTENCE, 3: "กินข้าว กับแม่", 4: "A keeper"}
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        migrate(db, STEPS[:5])
        for node, text in texts.items():
            row = (node, node - 1 or None, node, len(text), len(text.split()), 10 if text else 16)
            db.execute(
                "INSERT INTO node"
                " (id, parent, place, chars, words, edges, state, author, flags, rating, created)"
                " VALUES (?, ?, ?, ?, ?, ?, 0, 'writer', 0, 0, 0)",
                row,
            )
            db.execute("INSERT INTO body (id, text) VALUES (?, ?)", (node, text))
        db.execute("INSERT INTO search (rowid, text) SELECT id, text FROM body WHERE text <> ''")
        db.execute("INSERT INTO value VALUES ('current', '4')")
        migrate(db, STEPS[:6])
    for readonly in (True, False):
        with Story.open(path, readonly=readonly) as story:
            assert found(story, "灯塔") == [2]
            assert found(story, "ข้าว") == [3]
            assert found(story, "keeper") == [4]
            assert story.words(4) == 17 + 3 + 2
    assert check(path).sound
