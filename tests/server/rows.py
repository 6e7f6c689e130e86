"""The rows of all dialects."""

from __future__ import annotations

from srbwriter.server.leaves import LEAVES

DIALECTS = [leaf for name, leaf in LEAVES.items() if name.startswith("dialects.")]
ENDPOINTS = [row for leaf in DIALECTS for row in leaf.rows]
PAGES = LEAVES["page"].rows
