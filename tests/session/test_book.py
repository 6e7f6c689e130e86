"""What a long story needs: the story so far in its prompt, the outline's lines, names for the lorebook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from srbwriter.engine.types import Stop
from srbwriter.session import Session
from srbwriter.session.naming import passages_about, unknown_names
from srbwriter.session.outlining import note_for
from srbwriter.session.so_far import Summary, fit, parts_of
from srbwriter.story import ROOT
from srbwriter.story.outline import outline
from tests.session.conftest import WAIT, open_session, write_round

SENTENCE = "Mara walked down to the harbour and counted the boats, and one was missing. "
BOOK = "\n\n".join(f"# Part {number}\n\n" + SENTENCE * 60 for number in range(1, 5))


@pytest.fixture
def long(file: Path) -> Iterator[Session]:
    """A session on a story of four chapters, of which the window of 2 048 tokens holds less than two."""
    with open_session(file, BOOK, n=2, stop=Stop(max_tokens=8, ignore_eog=True)) as session:
        session.book.share, session.book.least = 0.2, 0
        yield session


def wait_for_summaries(session: Session) -> list[Summary]:
    session.book.later(lambda: None).result(WAIT)  # behind what it writes
    return session.book.summaries


def prompt(session: Session) -> str:
    return "".join(part.text for part in session.context().parts if part.fits)


def test_chapters_that_no_longer_fit_get_summaries_in_the_prompt_and_picks_evaluate_no_more(
    long: Session,
) -> None:
    write_round(long)
    found = wait_for_summaries(long)
    assert [one.title for one in found] == ["Part 1", "Part 2", "Part 3"]
    assert all(one.by_model and one.text.strip() for one in found)
    assert "Part 1" not in long.story.text(long.node)[-len(SENTENCE) :]
    write_round(long)
    told = prompt(long)
    assert told.index("The story so far:") < told.index("Part 1:") < told.index("Mara walked")
    assert long.text().startswith("# Part 1") and "The story so far" not in long.text()
    for _ in range(3):
        long.pick(0, go_on=True)
        current = long.round
        assert current is not None and current.generation is not None
        current.generation.wait(WAIT)
        generation = current.generation
        assert len(generation.prompt_ids) - generation.cached_tokens <= 2


def test_a_summary_stays_as_the_writer_edited_it_and_changes_with_its_chapter(long: Session) -> None:
    write_round(long)
    wait_for_summaries(long)
    part = long.book.parts()[0][0]
    long.book.put(part, "Mara counts the boats.")
    write_round(long)
    assert wait_for_summaries(long)[-1] == long.book.parts()[0][1]
    assert long.book.parts()[0][1].text == "Mara counts the boats."
    second = long.book.parts()[1][0]
    before = long.book.parts()[1][1]
    long.set_text(
        long.text()[: second.begin + 20] + "\nThe sea froze. " * 90 + long.text()[second.begin + 20 :]
    )
    write_round(long)
    wait_for_summaries(long)
    now = long.book.parts()[1][1]
    assert now is not None and before is not None and now.paragraphs != before.paragraphs


def test_stop_ends_the_summary_that_is_written(long: Session) -> None:
    current = long.generate()
    long.book.stop()
    current.generation.wait(WAIT)
    long.keep()
    assert len(wait_for_summaries(long)) < 3 and long.book.progress == ""


def test_no_share_writes_nothing(long: Session) -> None:
    long.book.share = 0
    write_round(long)
    assert not wait_for_summaries(long) and "The story so far" not in prompt(long)


def test_many_summaries_are_fitted_at_once_the_newest_of_them(long: Session) -> None:
    engine, read = long.engine, 0
    assert engine is not None

    class Counting:
        def tokenize(self, text: str) -> list[int]:
            nonlocal read
            read += len(text)
            return engine.tokenize(text)

    many = [Summary(f"Chapter {k}", f"Ada goes to island {k}. " * 6) for k in range(300)]
    told = fit(many, cast("Any", Counting()), 200)
    assert "Chapter 299: Ada goes to island 299.\n" in told and "Chapter 0:" not in told
    assert len(engine.tokenize(told)) <= 200 and read < 40 * len(told)


def test_a_text_without_chapters_has_parts_of_two_thousand_words() -> None:
    text = "".join(SENTENCE * 10 + "\n\n" for _ in range(40))
    found = parts_of(text, outline(text))
    assert [part.title for part in found] == [
        "The beginning, part 1",
        "The beginning, part 2",
        "The beginning, part 3",
    ]
    assert [part.begin for part in found[1:]] == [part.end for part in found[:-1]]
    grown = parts_of(text + SENTENCE * 200, [])
    assert grown[:2] == found[:2]


def test_the_model_reads_the_lines_of_this_chapter_and_the_next(session: Session) -> None:
    session.set_text("# One\n\nIt rained.\n\n# Low Water\n\nThe boats")
    session.book.put_outline("One: It rains.\nLow Water: Strangers ask for him.\nHigh Tide: They drown.")
    told = prompt(session)
    assert "[This chapter: Strangers ask for him.]\n[The next chapter: They drown.]" in told
    assert "It rains." not in told
    assert (
        note_for("He comes home.\nHe leaves.", outline("# A\n\nx\n\n# B\n\ny"), 12)
        == "[This chapter: He leaves.]"
    )


def test_a_line_and_an_entry_are_proposed_from_the_text(session: Session) -> None:
    session.set_text("# One\n\n" + SENTENCE * 3)
    part = session.book.parts()[0][0]
    assert session.book.propose_line(part).result(WAIT).startswith("One: ")
    words = session.book.propose_entry("Mara").result(WAIT)
    assert words.strip()
    session.book.add_entry("Mara", words)
    entry = session.story.node(ROOT).settings.lore[-1]
    assert (entry.name, entry.keys, entry.text) == ("Mara", ["Mara"], words)


def test_a_name_without_an_entry_is_offered_once_a_chapter(session: Session) -> None:
    session.set_text(
        "# One\n\nThen Mara came, and Mara sang. Nobody saw Mara go. "
        + "We met Tom. So did Tom, or Tom. " * 2
    )
    assert session.book.offer_name() == "Tom"
    assert session.book.offer_name() == ""
    session.set_text(session.text() + "\n\n# Two\n\nAnd so on.")
    assert session.book.offer_name() == "Mara"
    lore = session.story.node(ROOT).settings
    assert unknown_names("", lore.lore) == []
    session.story.put_settings(ROOT, replace(lore, lore=[]))


def test_passages_are_whole_sentences_with_the_name() -> None:
    text = "It rained. Mara laughed at it. The sea lay still. Who knew Mara?"
    assert passages_about("Mara", text) == "Mara laughed at it. Who knew Mara?"
