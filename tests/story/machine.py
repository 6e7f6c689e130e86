"""The frame of tests that ask a story for random verbs."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis.stateful import RuleBasedStateMachine

from srbwriter.story import Story
from srbwriter.story.model import TokenSizes
from tests.story.branches import sizes


class StoryMachine(RuleBasedStateMachine):
    """Verbs on a new story, whose vocabularies are those of ``token_sizes``."""

    token_sizes: TokenSizes = staticmethod(sizes)

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.story = Story.create(self.folder / "a.srbw")
        self.story.token_sizes = self.token_sizes

    def open_again(self) -> None:
        self.story.close()
        assert [path.name for path in self.folder.iterdir()] == ["a.srbw"]
        self.story = Story.open(self.folder / "a.srbw")
        self.story.token_sizes = self.token_sizes

    def teardown(self) -> None:
        self.story.close()
        shutil.rmtree(self.folder)
