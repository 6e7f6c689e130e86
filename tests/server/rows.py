"""The rows of all dialects."""

from __future__ import annotations

from srbwriter.server import page
from srbwriter.server.app import DIALECTS as EVERY

DIALECTS = [dialect for dialect in EVERY if dialect is not page.DIALECT]
ENDPOINTS = [row for dialect in DIALECTS for row in dialect.endpoints]
