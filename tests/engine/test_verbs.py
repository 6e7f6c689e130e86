"""The table of verbs: handles and docs agree with it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import (
    BranchState,
    Request,
    Sampling,
    Stop,
)
from srbwriter.engine.verbs import HTTP_VERBS, REQUIRED, VERBS, Verb
from tools import pages

DOCS = Path(__file__).parents[2] / "docs" / "http-api.md"
GENERATION = Generation(1, Request("Once"), lambda command: None)


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_handle_has_the_arguments_of_the_table(verb: Verb) -> None:
    handle = getattr(Generation if verb.whole else Branch, verb.name)
    parameters = list(inspect.signature(handle).parameters.values())[1:]
    assert [p.name for p in parameters] == [argument.name for argument in verb.arguments]
    empty = inspect.Parameter.empty
    assert [REQUIRED if p.default is empty else p.default for p in parameters] == [
        argument.default for argument in verb.arguments
    ]


@pytest.mark.parametrize(
    ("state", "useless"),
    [
        (BranchState.WRITING, {"resume", "extend"}),
        (BranchState.PROMPT, {"resume", "extend"}),
        (BranchState.PAUSED, {"pause", "extend"}),
        (BranchState.DONE, {"stop", "pause", "resume"}),
        (BranchState.FAILED, {"stop", "pause", "resume"}),
    ],
)
def test_what_does_nothing_in_a_state_says_why(state: BranchState, useless: set[str]) -> None:
    branch = Branch(GENERATION, 0, Sampling(), Stop(), 1)
    branch.state = state
    verbs = [verb for verb in VERBS.values() if not verb.whole]
    assert {verb.name for verb in verbs if verb.problem(branch)} == useless
    assert not VERBS["extend"].problem(branch, {"stop": 3})


def test_the_docs_list_the_verbs_as_they_are() -> None:
    text = pages.renewed(DOCS.read_text("utf-8"))
    assert pages.verbs() in text
    assert all(f"| `{verb.name}` | {verb.help} |" in text for verb in HTTP_VERBS)
    assert VERBS["extend"].always == "stop" and "resume does nothing: branch 0 is still writing" in text
