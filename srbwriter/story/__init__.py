"""The story: a tree that never loses a word. Pure; knows no engine and no screen."""

from __future__ import annotations

from srbwriter.story.model import ROOT as ROOT
from srbwriter.story.model import DamagedStory as DamagedStory
from srbwriter.story.model import NodeId as NodeId
from srbwriter.story.model import NotSaved as NotSaved
from srbwriter.story.model import Refused as Refused
from srbwriter.story.model import StoryError as StoryError
from srbwriter.story.node import Node as Node
from srbwriter.story.spans import Edit as Edit
from srbwriter.story.story import Story as Story
