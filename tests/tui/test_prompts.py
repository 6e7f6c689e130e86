"""Sample prompts: the shipped ones are complete and usable, a broken one is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.engine.parameters import validate
from srbwriter.engine.types import Sampling
from srbwriter.tui.dialogs import openings as choices

FILES = sorted(paths.asset_dir("sample_prompts").glob("*.txt"))


def test_there_are_two_dozen_of_many_genres_and_forms() -> None:
    found = choices.load_prompts()
    assert len(found) == len(FILES) >= 24
    assert len({prompt.genre for prompt in found}) >= 10
    assert len({prompt.form for prompt in found}) >= 10
    assert {prompt.kind for prompt in found} == set(choices.KINDS)
    assert len({prompt.title for prompt in found}) == len(found)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_suggested_sampling_is_one_the_engine_takes(file: Path) -> None:
    prompt = choices.read_prompt(file)
    validate(replace(Sampling(), **prompt.sampling))
    assert prompt.text == prompt.text.strip()
    assert prompt.memory or prompt.kind == "base"
    assert bool(prompt.request) == (prompt.kind == "instruct")
