"""The story: a tree that never loses a word. Pure; knows no engine and no screen."""

from __future__ import annotations

from srbwriter.prose import Unit
from srbwriter.story.draft import Author, Settings
from srbwriter.story.story import Story
from srbwriter.story.types import (
    ROOT,
    Blocked,
    Damage,
    DamagedStory,
    Hit,
    Marks,
    Node,
    NodeId,
    NoSuchNode,
    NotAStory,
    NotSaved,
    Properties,
    ReadOnly,
    ReadOnlyStory,
    Refused,
    Run,
    State,
    StoryError,
    TokenSizes,
    TooNew,
)

__all__ = [
    "Author",
    "Blocked",
    "Damage",
    "DamagedStory",
    "Hit",
    "Marks",
    "NoSuchNode",
    "Node",
    "NodeId",
    "NotAStory",
    "NotSaved",
    "Properties",
    "ROOT",
    "ReadOnly",
    "ReadOnlyStory",
    "Refused",
    "Run",
    "Settings",
    "State",
    "Story",
    "StoryError",
    "TokenSizes",
    "TooNew",
    "Unit",
]
