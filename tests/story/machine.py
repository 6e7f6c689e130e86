"""The frame of tests that ask a story for random verbs."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis.stateful import RuleBasedStateMachine

from srbwriter.story import Story
from srbwriter.story.model import TokenSizes
from tests.story.branches import sizes


def without_waiting(story: Story) -> Story:
    """The story, which does not wait for the disk: only tests that pull the plug need that."""
    story._document.store.db.execute("PRAGMA synchronous = OFF")
    return story


class StoryMachine(RuleBasedStateMachine):
    """Verbs on a new story, whose vocabularies are those of ``token_sizes``."""

    token_sizes: TokenSizes = staticmethod(sizes)

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.story = Story.create(self.folder / "a.srbw")
        self.prepare()

    def prepare(self) -> None:
        self.story.use_token_sizes(self.token_sizes)
        without_waiting(self.story)

    def open_again(self) -> None:
        self.story.close()
        self.story = Story.open(self.folder / "a.srbw")
        self.prepare()

    def teardown(self) -> None:
        self.story.close()
        shutil.rmtree(self.folder)
