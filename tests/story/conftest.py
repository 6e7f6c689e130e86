"""What the tests of the story share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.story import ROOT, Story
from tests.story.branches import WORDS, added


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    """A new, empty story."""
    with Story.create(tmp_path / "s.srbw") as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a story.srbw"


@pytest.fixture(scope="session")
def sixty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The story of which ``written`` gives each test a copy."""
    path = tmp_path_factory.mktemp("sixty") / "a story.srbw"
    with Story.create(path, "Sixty") as story:
        node = ROOT
        for number in range(60):
            [node] = added(story, node, [f"<{number}> {WORDS}"])
        story.visit(node)
    return path


@pytest.fixture
def written(path: Path, sixty: Path) -> Path:
    """A closed story of sixty nodes in a line, each with its number in it."""
    return Path(shutil.copy(sixty, path))
