"""Sessions: an open story, an engine, and the verbs that connect them, for every interface.

A session turns the path of a node into the tokens of a prompt, and generated text into nodes. This package
imports no screen and no HTTP.
"""

from __future__ import annotations

from .prompting import PromptAccount, PromptPart
from .round import Round
from .session import Session

__all__ = ["PromptAccount", "PromptPart", "Round", "Session"]
