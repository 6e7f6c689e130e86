"""Sample prompts: the shipped ones are complete and usable, a broken one is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.engine.parameters import validate
from srbwriter.engine.types import Sampling
from srbwriter.tui.dialogs import choices

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


_HEAD = '+++\ntitle = "T"\ngenre = "g"\nform = "f"\nkind = '


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f'{_HEAD}"instruct"\n+++\nWrite a story.', "request"),
        (f'{_HEAD}"instruct"\nrequest = " "\n+++\n', "request"),
        (f'{_HEAD}"instruct"\nrequest = 1\n+++\n', "words in quotes"),
        (f'{_HEAD}"base"\nrequest = "Write."\n+++\nIt rained.', "request"),
        (f'{_HEAD}"base"\n+++\n', "text"),
    ],
)
def test_a_request_belongs_to_samples_for_instruction_models(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "sample.txt"
    file.write_text(text)
    with pytest.raises(choices.PromptError, match=why):
        choices.read_prompt(file)


def test_an_answer_may_have_a_beginning(tmp_path: Path) -> None:
    file = tmp_path / "sample.txt"
    file.write_text(f'{_HEAD}"instruct"\nrequest = "Write a letter."\n+++\nDear brother,\n')
    found = choices.read_prompt(file)
    assert (found.request, found.text) == ("Write a letter.", "Dear brother,")


@pytest.mark.parametrize(
    "text",
    ["no front matter", "+++\ntitle = 1\n", "+++\n+++\nText", '+++\nkind = "poem"\n+++\nText', "+++\n+++\n"],
)
def test_a_broken_prompt_names_its_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.txt"
    file.write_text(text)
    with pytest.raises(choices.PromptError, match=r"broken\.txt"):
        choices.read_prompt(file)
