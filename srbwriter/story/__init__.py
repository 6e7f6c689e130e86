"""The story: a tree that never loses a word. Pure; knows no engine and no screen."""

from __future__ import annotations

from srbwriter.story.model import ROOT as ROOT
from srbwriter.story.model import Damage as Damage
from srbwriter.story.model import DamagedStory as DamagedStory
from srbwriter.story.model import NodeId as NodeId
from srbwriter.story.model import NotAStory as NotAStory
from srbwriter.story.model import NotSaved as NotSaved
from srbwriter.story.model import ReadOnly as ReadOnly
from srbwriter.story.model import Refused as Refused
from srbwriter.story.model import State as State
from srbwriter.story.model import StoryError as StoryError
from srbwriter.story.model import StorySettings as StorySettings
from srbwriter.story.model import TokenSizes as TokenSizes
from srbwriter.story.node import Node as Node
from srbwriter.story.spans import Edit as Edit
from srbwriter.story.story import Story as Story
