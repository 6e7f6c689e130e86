"""The one object behind every face with a story: an open story, a loading engine, and verbs between them.

Turns a node's path into a token-exact prompt and what the engine writes into nodes. Knows no
screen and no HTTP.
"""

from __future__ import annotations

from .prompting import Context, Part
from .rounds import Round
from .session import Session

__all__ = ["Context", "Part", "Round", "Session"]
