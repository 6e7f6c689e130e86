"""The story: a tree that never loses a word. Pure; knows no engine and no screen."""

from __future__ import annotations

from srbwriter.story.edits import Edit
from srbwriter.story.model import (
    ROOT,
    Author,
    Blocked,
    Damage,
    DamagedStory,
    NodeId,
    NotAStory,
    NotSaved,
    ReadOnly,
    Refused,
    SecondFile,
    State,
    StoryError,
    StorySettings,
    TokenSizes,
)
from srbwriter.story.node import Node
from srbwriter.story.story import Story

__all__ = [
    "Author",
    "Blocked",
    "Damage",
    "DamagedStory",
    "Edit",
    "Node",
    "NodeId",
    "NotAStory",
    "NotSaved",
    "ROOT",
    "ReadOnly",
    "Refused",
    "SecondFile",
    "StorySettings",
    "State",
    "Story",
    "StoryError",
    "TokenSizes",
]
