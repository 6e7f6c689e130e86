"""Cutting and joining runs loses neither characters nor tokens."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from srbwriter.story.runs import (
    Runs,
    change,
    cut,
    cut_at,
    decode,
    encode,
    prompt_runs,
    seam_of,
    text_of,
    tidy,
)
from srbwriter.story.types import Run


def sizes(vocab: str, ids: Sequence[int]) -> list[int] | None:
    return [n % 4 for n in ids] if vocab == "known" else None


@st.composite
def a_run(draw: st.DrawFn) -> Run:
    author = draw(st.sampled_from(["writer", "model"]))
    if draw(st.booleans()):
        return Run(draw(st.text("ab ", min_size=1, max_size=8)), author)
    ids = draw(st.lists(st.integers(0, 20), min_size=1, max_size=6))
    text = "".join("xyz"[: n % 4] for n in ids)
    scored = draw(st.booleans())
    return Run(
        text,
        author,
        tuple(ids),
        draw(st.sampled_from(["known", "unknown"])),
        tuple(-float(n) if n % 5 else None for n in ids) if scored else None,
    )


RUNS = st.lists(a_run(), max_size=5).map(tidy)


def tokens(runs: Runs) -> list[int]:
    return [token for run in runs for token in run.ids or ()]


@given(RUNS, st.data())
def test_a_cut_can_be_joined_again(runs: Runs, data: st.DataObject) -> None:
    text = text_of(runs)
    at = data.draw(st.integers(0, len(text)))
    head, tail = cut(runs, at, sizes)
    assert (text_of(head), text_of(tail)) == (text[:at], text[at:])
    assert tidy([*head, *tail]) == runs
    assert tokens(prompt_runs([*head, *tail])) == tokens(prompt_runs(runs))


@given(RUNS, st.data())
def test_without_the_vocabulary_a_path_still_keeps_its_tokens(runs: Runs, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text_of(runs))))
    head, tail = cut(runs, at)
    assert tidy([*head, *tail]) == runs


@given(RUNS, RUNS)
def test_joined_runs_come_apart_as_they_were(head: Runs, tail: Runs) -> None:
    joined = tidy([*head, *tail])
    again = cut_at(joined, len(text_of(head)), seam_of(head, joined))
    assert again[0] == head
    assert text_of(again[1]) == text_of(tail)
    assert tidy([*again[0], *again[1]]) == joined


@given(RUNS, st.text("abxyz ", max_size=12))
def test_a_change_says_the_new_text(runs: Runs, text: str) -> None:
    made = change(runs, text, "writer", sizes)
    assert text_of(made) == text
    for run in made:
        if run.ids is not None and run.vocab == "known" and not run.lead:
            assert sum(sizes(run.vocab, run.ids) or ()) == len(run.text)


def test_a_change_keeps_the_tokens_around_it() -> None:
    runs = (Run("xyzxyxyz", "model", (3, 2, 3), "known", (-1.0, -2.0, -3.0)),)
    made = change(runs, "xyzQxyz", "writer", sizes)
    assert [(run.text, run.ids) for run in made] == [("xyz", (3,)), ("Q", None), ("xyz", (3,))]


def test_two_changes_keep_the_tokens_between_them() -> None:
    runs = (Run("a fox and a hen met a dog at noon. ", "model", (2, 4, 4, 2, 4, 4, 2, 4, 3, 6), "known"),)
    assert sum((2, 4, 4, 2, 4, 4, 2, 4, 3, 6)) == len(runs[0].text)
    made = change(runs, "a cat and a hen met a cow at noon. ", "writer", lambda _, ids: ids)
    assert [run.ids for run in made if run.ids] == [(2,), (4, 2, 4, 4, 2), (3, 6)]


def test_a_cut_inside_a_token_leaves_a_lead() -> None:
    head, tail = cut((Run("xyzxyz", "model", (3, 3), "known"),), 4, sizes)
    assert head == (Run("xyz", "model", (3,), "known"), Run("x", "model"))
    assert tail == (Run("yz", "model", (3,), "known", lead="x"),)


def test_a_lead_that_is_not_there_costs_the_ids() -> None:
    run = Run("yz", "model", (3,), "known", lead="x")
    assert prompt_runs([Run("a", "writer"), run]) == (Run("ayz", "writer"),)
    assert prompt_runs([Run("ax", "writer"), run])[-1] == run


@given(RUNS)
def test_runs_survive_the_file(runs: Runs) -> None:
    assert decode(encode(runs, "writer"), text_of(runs), "writer") == runs


@given(RUNS, st.binary(max_size=40))
def test_unreadable_ids_never_cost_text(runs: Runs, noise: bytes) -> None:
    assert text_of(decode(noise, text_of(runs), "writer")) == text_of(runs)


def test_tokens_without_text_stay_where_they_were() -> None:
    head = (Run("", "model", (0,), "known"),)
    for tail in ((Run("a", "writer"),), (Run("x", "model", (1,), "known"),)):
        joined = tidy([*head, *tail])
        assert cut_at(joined, 0, seam_of(head, joined)) == (head, tail)
