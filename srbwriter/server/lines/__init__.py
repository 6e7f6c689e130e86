"""The line protocol: the same engine for clients that speak text over a socket, without HTTP.

``wire`` knows lines, ``conversation`` what was set and said; ``peer`` is what clients have in common,
``session`` the protocol, ``plain`` the older way in, ``house`` the doors.
"""

from __future__ import annotations

import asyncio

from srbwriter.server.endpoints import Leaf
from srbwriter.server.services import Loader, Services
from srbwriter.server.settings import ServerSettings
from srbwriter.server.streams import Notifier

from .house import House
from .session import COMMANDS, Session

LEAF = Leaf(beside=House)


def run_standard(loader: Loader, settings: ServerSettings) -> int:
    """Speak the line protocol on standard input and output until either ends; the exit code.

    Raises ServerError for a file that cannot be read.
    """
    services = Services(loader, settings, Notifier())
    house = House(services)

    async def serve() -> None:
        services.notifier.attach(asyncio.get_running_loop())
        async with house.open():
            await house.standard()

    asyncio.run(serve())
    return 0


__all__ = ["COMMANDS", "LEAF", "House", "Session", "run_standard"]
