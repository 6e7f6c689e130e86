"""Where sentences, paragraphs and words of a whole text end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter import unspaced
from srbwriter.prose import (
    ABBREVIATIONS,
    LineScanner,
    ParagraphScanner,
    Scanner,
    SentenceScanner,
    Unit,
    last_sentence_start,
    sentence_ends,
    unit_ends,
    word_ends,
)

prose = st.lists(
    st.sampled_from(
        [*"aBI3 \n.!?…。\"')", "Mr.", "...", "\n\n", "etc.", "界", "p.m.", "ประตูประภาคาร", " แต่", " แ", "ๆ"]
    ),
    max_size=30,
).map("".join)


def cut(text: str, ends: list[int]) -> list[str]:
    return [text[a:b] for a, b in pairwise([0, *ends, len(text)])]


@pytest.mark.parametrize(
    "sentences",
    [
        ["He left.", " She stayed.", ""],
        ["No!?", " (Yes.)", " He [she?] and that was all"],
        ["“Hm…” he said.", "\n\nNext...", " \nlower case ends a line.", ""],
        ["*He waves.*", " Hello at 5 p.m. sharp.", " It was 5 p.m.", " Then it rained.", ""],
        ["Ask Dr. St. John of the U.S. Army.", " Fine.", ""],
        ["「はい。」", "と言った。", "そう！？", "ええ"],
        ["He bought pens, ink, etc.", "\nThen he left.", ""],
        ["क्या?", " हाँ।", ""],
        ["no full stop"],
        ["It was Mr...", " Jones.", " He (Mr.)", " Then"],
        ["It was Mr.!", " Then"],
        ["It ends with Mr."],
        ["彼は笑った。", "そして（本当に？）", "黙った｡", "終わり"],
        ["သူလာသည်။", "သူပြန်သွားသည်။", ""],
        ["គាត់មក។", " គាត់ទៅ។", "\nចប់៕", ""],
    ],
)
def test_sentence_ends(sentences: list[str]) -> None:
    text = "".join(sentences)
    assert cut(text, sentence_ends(text)) == sentences


@given(st.sampled_from(sorted(ABBREVIATIONS)))
def test_an_abbreviation_ends_no_sentence(word: str) -> None:
    text = f"It was {word}. Then"
    assert sentence_ends(text) == []
    assert sentence_ends(text.replace(".", ".\n")) != []


@pytest.mark.parametrize(
    "sentences",
    [
        ["เขาผลักประตูประภาคารเปิดออก", " ลมทะเลพัดเข้ามาทันทีจนเขาต้องหลับตา", " ชายชราหัวเราะ"],
        ["เขาเดินไปตามถนนสายยาวที่มืด แต่ไม่มีใครอยู่ที่นั่น", " เธอยืนรอ"],  # a word that joins goes on
        ["เขาซื้อส้ม กล้วย มะม่วง"],  # a space after few letters parts a list
        ["ปีนั้นเขาอายุครบยี่สิบ 25 ปีผ่านไปอย่างช้า"],  # as one before a number does
        ["เธออ่านหนังสือเล่มใหม่ต่าง ๆ ทุกวัน"],
        ['"คุณมาช้าไปมากเลยนะครับวันนี้" เขาพูด'],
        ["เขาผลักประตูประภาคารเปิดออก\nลม พัดเข้ามา"],  # letters count from the line's beginning
        ["ລາວເປີດປະຕູປະພາຄານຢ່າງຊ້າ", " ລົມທະເລພັດເຂົ້າມາ"],
        ["เขาผลักประตูประภาคารเปิดออก "],  # who knows what follows
        ["He came.", " เขามา"],
    ],
)
def test_a_space_ends_a_long_sentence_of_thai_or_lao(sentences: list[str]) -> None:
    text = "".join(sentences)
    assert cut(text, sentence_ends(text)) == sentences


def test_paragraph_ends() -> None:
    text = "\n\none\ntwo\n \nthree\n\n\n\nfour \n"
    assert cut(text, ParagraphScanner().feed(text)) == ["\n\none\ntwo", "\n \nthree", "\n\n\n\nfour \n"]
    assert not ParagraphScanner().feed(" \n\n ")


def test_word_ends() -> None:
    text = " It's  a “test”, well-known end "
    assert cut(text, word_ends(text)) == [" It's", "  a", " “test”,", " well-known", " end", " "]


@pytest.mark.parametrize(
    "words",
    [
        ["他", "把", "灯塔", "的", "门", "推开，", "海风", "进来。", "“你", "终于", "来", "了。”", ""],
        ["她", "看見", "遠處", "的", "漁船。", ""],
        ["灯台", "は", "古い", "扉。", "「やっと", "来", "た", "の", "ね」", "と", "彼女。", ""],
        ["เขา", "ผลัก", "ประตู", " ลมทะเล", "พัด", "เข้า", "มา", ""],
        ["ລາວ", "ເປີດ", "ປະຕູ", " ລົມທະເລ", "ພັດ", ""],
        ["ខ្យល់", "សមុទ្រ", "បាន", "បក់។", ""],
        ["သူ", "သည်", " တံခါး", "ကို", "ဖွင့်။", ""],
        [" Use", " the", "手机", "iPhone-15", " now", ""],
        ["他\u200b", "们……", ""],
        ["——", ""],
        ["（！）", ""],
        ["「", ""],
    ],
)
def test_word_ends_without_spaces(words: list[str]) -> None:
    text = "".join(words)
    assert cut(text, word_ends(text)) == words


@pytest.mark.parametrize(
    "words",
    [
        ["他", "把", "灯", "塔", "的", "门", "推", "开，", "“你", "来", "了。”", ""],
        ["「や", "っ", "と」", ""],
        ["เ", "ข้", "า", " ม", "า", ""],
        [" Use", " the", "手", "机", "iPhone-15", " now", ""],
        ["他\u200b", "们……", ""],
    ],
)
def test_without_dictionaries_a_character_with_its_marks_is_a_word(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unspaced, "word_breaker", lambda: None)
    text = "".join(words)
    assert cut(text, word_ends(text)) == words


scripts = st.text(alphabet="a'- \n“”「」。（！界灯塔の閉めกินข้ามาຂខ្មមြန်\u200b\U00020bb7\ud800", max_size=40)


@pytest.mark.parametrize("dictionaries", [True, False])
@given(text=scripts)
def test_words_take_up_the_whole_text(text: str, dictionaries: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if not dictionaries:
            patch.setattr(unspaced, "word_breaker", lambda: None)
        check_words(text)


def check_words(text: str) -> None:
    ends = word_ends(text)
    assert all(a < b for a, b in pairwise(ends))
    assert (ends[-1] if ends else 0) == len(text.rstrip())
    assert all(text[a:b].strip() and not text[b - 1].isspace() for a, b in pairwise([0, *ends]))
    assert not any(text[end : end + 1] in "」”。" for end in ends if end < len(text))
    bare = "".join("x" if c in "界灯塔の閉めกินข้ามาຂខ្មမြန်\U00020bb7" else c for c in text)
    assert {end for end in word_ends(bare)} <= set(ends)  # words only come nearer to each other


@pytest.mark.parametrize(
    ("count", "rest"), [(0, "A a. B b. C"), (1, "A a. B b."), (2, "A a."), (3, ""), (9, "")]
)
def test_last_sentence_start(count: int, rest: str) -> None:
    text = "A a. B b. C"
    assert text[: last_sentence_start(text, count)] == rest


def test_whitespace_at_the_end_is_no_sentence() -> None:
    assert last_sentence_start("A a. B b. \n", 1) == 4


@given(prose, st.integers(1, 5))
def test_dropping_sentences_one_by_one_is_dropping_them_together(text: str, count: int) -> None:
    rest = text
    for _ in range(count):
        shorter = rest[: last_sentence_start(rest, 1)]
        assert len(shorter) < len(rest) or not rest
        rest = shorter
    assert rest == text[: last_sentence_start(text, count)]


scanners = st.sampled_from([LineScanner, ParagraphScanner, SentenceScanner])


@given(prose, st.lists(st.integers(0, 60), max_size=12), scanners)
def test_how_a_text_is_cut_up_does_not_matter(text: str, cuts: list[int], kind: type[Scanner]) -> None:
    whole, parts = kind(), kind()
    at = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    found = [end for a, b in pairwise(at) for end in parts.feed(text[a:b])]
    assert found == list(whole.feed(text))
    assert parts.held == whole.held
    assert all(a < b for a, b in pairwise(found))


@pytest.mark.parametrize(
    ("text", "unit", "times", "taken"),
    [
        (" Once upon a time", "word", 1, " Once"),
        (" Once upon a time", "word", 3, " Once upon a"),
        ("\u201cGo!\u201d she said. Then", "sentence", 1, "\u201cGo!\u201d she said."),
        ("\u201cGo!\u201d she said. Then", "sentence", 2, "\u201cGo!\u201d she said. Then"),
        ("Mr. Fox met J. Hare. He ran.", "sentence", 1, "Mr. Fox met J. Hare."),
        ("A title\nAnd a line.", "sentence", 1, "A title"),
        ("First.\n\nSecond.\n\nThird.", "paragraph", 1, "First."),
        ("First.\n\nSecond.\n\nThird.", "paragraph", 2, "First.\n\nSecond."),
        ("no end", "sentence", 1, "no end"),
        ("no end", "paragraph", 9, "no end"),
        ("wait... what?", "sentence", 1, "wait... what?"),
        ("Wait\u2026 What?", "sentence", 1, "Wait\u2026"),
        ("「灯塔」的门", "word", 1, "「灯塔」"),
        ("他说：「你好！」然后走了。", "word", 3, "他说：「你好！」"),
        ("他说：「你好！」然后走了。", "sentence", 1, "他说：「你好！」"),
    ],
)
def test_units_end(text: str, unit: Unit, times: int, taken: str) -> None:
    ends = unit_ends(text, unit)
    assert text[: ends[min(times, len(ends)) - 1]] == taken
