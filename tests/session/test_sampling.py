"""Knobs that were turned come back with the story; what a start is told goes first."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter import launch
from srbwriter.cli.table import every_key
from srbwriter.config import Settings
from srbwriter.config.keys import SIBLINGS, N
from srbwriter.config.settings import Setting
from srbwriter.engine.types import Sampling, Stop
from srbwriter.session.sampling import TURNED, RememberedKnobs, Usual, Variety
from srbwriter.story import Story

keys = cache(every_key)


def settings(**said: Any) -> Settings:
    return Settings(keys(), {name.replace("__", "."): Setting(v, "flag") for name, v in said.items()})


def opened(story: Any, found: Settings | None = None) -> tuple[Any, RememberedKnobs]:
    """A session as it is after a start, before and with the knobs of the story."""
    found = found or settings()
    session = SimpleNamespace(
        story=story, sampling=launch.sampling(found), stop=launch.stop(found),
        variety=Variety(found[SIBLINGS]), n=found[N],
    )  # fmt: skip
    session.usual = Usual(session.sampling, session.stop, session.variety, session.n)
    return session, RememberedKnobs(session, found)  # type: ignore[arg-type]


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story.create(tmp_path / "story.srbw", "Rain")


def test_knobs_come_back(story: Story) -> None:
    session, knobs = opened(story)
    session.sampling = Sampling(temperature=1.3, logit_bias=((5, -1.0),), seed=7)
    session.stop = Stop(max_tokens=None, strings=("\n", "END"), boundary="sentence")
    wanted = session.sampling, session.stop
    knobs.keep()
    story.flush()
    with Story.open(story.file, readonly=True) as again:
        session, knobs = opened(again)
        knobs.recall()
        assert (session.sampling, session.stop) == wanted


def test_how_branches_differ_comes_back_but_for_what_a_start_is_told(story: Story) -> None:
    session, knobs = opened(story)
    session.variety = replace(session.variety, siblings="independent")
    knobs.keep()
    again, remembered = opened(story)
    remembered.recall()
    assert again.variety.siblings == "independent"
    given, remembered = opened(story, settings(instruments__siblings="distinct"))
    remembered.recall()
    assert given.variety.siblings == "distinct"


def test_the_number_of_branches_comes_back_but_for_what_a_start_is_told(story: Story) -> None:
    session, knobs = opened(story)
    usual, session.n = session.n, session.n + 2
    knobs.keep()
    again, remembered = opened(story)
    remembered.recall()
    assert again.n == usual + 2
    given, remembered = opened(story, settings(**{N.name: 3}))
    remembered.recall()
    remembered.keep()
    assert given.n == 3
    again, remembered = opened(story)
    remembered.recall()
    assert again.n == usual + 2


def test_what_is_said_at_the_start_goes_first(story: Story) -> None:
    session, knobs = opened(story)
    session.sampling = Sampling(temperature=1.3, min_p=0.2)
    session.stop = Stop(max_tokens=10)
    knobs.keep()
    session, knobs = opened(story, settings(sampling__temperature=0.6, generation__max_tokens=33))
    knobs.recall()
    assert (session.sampling.temperature, session.sampling.min_p, session.stop.max_tokens) == (0.6, 0.2, 33)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["sampling", "stop", "ladder", "temperature", "seed", "x"]), inner
            )
        ),
    )
)
def test_whatever_stands_in_the_file_does_no_harm(kept: Any) -> None:
    values = {TURNED: json.loads(json.dumps(kept))}
    session, knobs = opened(SimpleNamespace(value=values.get, read_only=None))
    knobs.recall()
    assert isinstance(session.sampling, Sampling) and isinstance(session.stop, Stop)
