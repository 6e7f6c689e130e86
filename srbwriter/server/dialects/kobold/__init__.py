"""KoboldAI's dialect as KoboldCpp speaks it, and text-generation-webui's older one on the same paths."""

from __future__ import annotations

from srbwriter.server.dialects.kobold import current, legacy
from srbwriter.server.dialects.kobold.current import KOBOLD, LEGACY, USUAL
from srbwriter.server.endpoints import Leaf

LEAF = Leaf(rows=(*current.ROWS, *legacy.ROWS), sockets=legacy.SOCKETS, prefixes={"/api/": KOBOLD})

__all__ = ["LEAF", "LEGACY", "USUAL"]
