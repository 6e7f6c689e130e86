"""The line protocol: the same engine for clients that speak text over a socket, without HTTP.

``wire`` knows lines, ``conversation`` what was set and said; ``peer`` is what clients have in common,
``session`` the protocol, ``plain`` the older way in, ``house`` the doors.
"""

from __future__ import annotations

from .house import House
from .session import COMMANDS, Session

__all__ = ["COMMANDS", "House", "Session"]
