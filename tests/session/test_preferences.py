"""What picks prefer: which picks and which branches count, for which settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from srbwriter.session import Session
from srbwriter.session.picks import AUTOMATIC
from srbwriter.session.preferences import MODEL, NOTE, NOTES, PRESET, Factor, Range, find_preferences
from srbwriter.session.rounds import WISH
from srbwriter.story import ROOT, NodeId, Settings, Story

from .conftest import WAIT, open_session, write_round

SEEDS = count(1)
HOT, COLD = {"temperature": 1.2}, {"temperature": 0.4}


@pytest.fixture
def story(file: Path) -> Iterator[Story]:
    with Story.create(file) as made:
        made.append("It rained.")
        yield made


def branches(story: Story, samplings: Sequence[dict[str, Any]], model: str = "one") -> list[NodeId]:
    """Branches of the current node, written to their end."""
    seeds = [next(SEEDS) for _ in samplings]
    made = story.begin_branches(story.current, len(seeds), model=model, sampling=samplings, seeds=seeds)
    for name in made:
        story.stream(name, " Then the fox ran. It sang.")
        story.finish(name, "length")
    return made


def factors(story: Story) -> dict[str, Factor]:
    return {factor.name: factor for factor in find_preferences(story).factors}


def shares(factor: Factor) -> dict[Any, float]:
    return {value.value: value.strength.share for value in factor.values}


def test_a_temperature_that_is_picked_wins(story: Story) -> None:
    for _ in range(12):
        story.pick(branches(story, [HOT, COLD, HOT, COLD])[2])
    found = factors(story)
    assert list(found) == ["temperature"] and find_preferences(story).picks == 12
    cold, hot = found["temperature"].values
    assert (cold.value, hot.value, hot.offered, hot.picked, cold.picked) == (0.4, 1.2, 12, 12, 0)
    assert hot.strength.low > 0.5 > cold.strength.high


def test_branches_with_equal_settings_are_no_comparison(story: Story) -> None:
    for _ in range(12):
        story.pick(branches(story, [HOT, HOT])[0])
    assert find_preferences(story) == (12, ())


def test_few_picks_say_nothing(story: Story) -> None:
    for _ in range(4):
        story.pick(branches(story, [HOT, COLD])[0])
    assert find_preferences(story) == (4, ())


def test_a_part_an_edit_and_a_continued_branch_are_picks_of_their_branch(story: Story) -> None:
    for _ in range(3):
        story.pick(branches(story, [HOT, COLD])[0], 18)
        hot, _cold = branches(story, [HOT, COLD])
        story.pick_as(story.current, " Then a vixen ran.", " Then the fox ran.", hot)
        hot, _cold = branches(story, [HOT, COLD])
        seed = story.node(hot).seed
        [more] = story.begin_branches(hot, 1, model="one", sampling=HOT, seeds=[seed])
        story.stream(more, " It slept.")
        story.finish(more, "length")
        story.pick(more)
    _, hot = factors(story)["temperature"].values
    assert (hot.offered, hot.picked) == (9, 9)


def test_undone_picks_and_those_that_nobody_made_do_not_count(story: Story) -> None:
    for _ in range(6):
        hot, cold = branches(story, [HOT, COLD])
        story.pick(cold)
        story.undo()
        story.pick(hot)
    assert factors(story)["temperature"].values[1].picked == 6
    made = list[NodeId]()
    for _ in range(20):
        made.append(story.pick(branches(story, [HOT, COLD])[1]))
    story.put_value(AUTOMATIC, made)
    assert factors(story)["temperature"].comparisons == 6


def test_several_picks_at_one_place_are_a_tie(story: Story) -> None:
    for _ in range(10):
        here = story.current
        hot, cold, _left = branches(story, [HOT, COLD, {"temperature": 0.7}])
        story.pick(hot)
        story.visit(here)
        story.pick(cold)
    found = shares(factors(story)["temperature"])
    assert found[1.2] == pytest.approx(found[0.4], abs=0.01) and found[0.7] < 0.1 < found[0.4]


def test_branches_of_another_round_at_the_place_are_compared_by_model(story: Story) -> None:
    for number in range(8):
        branches(story, [HOT, HOT], "small")
        large = branches(story, [HOT, HOT], "large")
        story.pick(large[0])
        if number == 0:
            here = story.current
            story.visit(ROOT)
            branches(story, [HOT], "late")  # elsewhere
            story.visit(here)
    found = factors(story)
    assert list(found) == [MODEL]
    assert shares(found[MODEL])["large"] > 0.9 and "late" not in shares(found[MODEL])


def test_what_differs_in_two_settings_is_compared_only_as_a_preset(story: Story) -> None:
    calm, wild = {"temperature": 0.5, "min_p": 0.1}, {"temperature": 1.5, "top_p": 0.99}
    for _ in range(9):
        story.pick(branches(story, [calm, wild, {**wild, "top_p": 0.9}])[1])
    found = factors(story)
    assert list(found) == ["top_p", PRESET]
    assert [value.value for value in found[PRESET].values] == [calm, wild]
    story.pick(branches(story, [calm, wild], "one")[0])
    for _ in range(9):
        branches(story, [calm], "one")
        story.pick(branches(story, [wild], "two")[0])
    assert MODEL not in factors(story)


def test_branches_that_follow_another_wish_are_not_equal_in_all_else(story: Story) -> None:
    for _ in range(8):
        hot, _cold = branches(story, [HOT, COLD])
        story.put_meta(hot, WISH, "more rain")
        story.pick(hot)
    assert find_preferences(story) == (8, ())


def test_many_temperatures_are_joined_to_ranges(story: Story) -> None:
    for number in range(12):
        sweep = [{"temperature": 0.3 + 0.1 * at + 0.001 * number} for at in range(8)]
        story.pick(branches(story, sweep)[7])
    values = factors(story)["temperature"].values
    assert len(values) == 5 and all(isinstance(one.value, Range) for one in values)
    assert values[0].value.low == 0.3 and values[-1].value.high == pytest.approx(1.011)
    assert [one.value.high < after.value.low for one, after in zip(values, values[1:], strict=False)] == [
        True
    ] * 4
    assert values[-1].strength.low > 0.5 > values[0].strength.share


def note(session: Session, words: str) -> None:
    session.together(lambda: session.story.put_settings(ROOT, Settings(author_note=words or None)))


def test_the_note_of_a_round_is_known_later(file: Path) -> None:
    with open_session(file, "It rained.", n=2) as session:
        for _ in range(5):
            for words in ("", "sad"):
                note(session, words)
                write_round(session)
            session.pick(1)
        session.preferences.later(lambda: None).result(WAIT)
        kept = session.story.value(NOTES)
        assert [words for _, words in kept] == ["", "sad"] * 5  # type: ignore[union-attr]
        findings = session.preferences.find().result(WAIT)
        assert findings.picks == 5
        [factor] = findings.factors
        assert factor.name == NOTE and [(v.value, v.offered, v.picked) for v in factor.values] == [
            ("", 5, 0), ("sad", 5, 5)
        ]  # fmt: skip


def test_a_story_without_notes_keeps_nothing_about_them(file: Path) -> None:
    with open_session(file, "It rained.", n=2) as session:
        write_round(session)
        session.preferences.later(lambda: None).result(WAIT)
        assert session.story.value(NOTES) is None
