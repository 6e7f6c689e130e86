"""The dialect's rows."""

from __future__ import annotations

from srbwriter.server.endpoint import Endpoint
from srbwriter.server.schema import COMPLETION

from .completions import completions

ENDPOINTS = (
    Endpoint(
        "POST", ("/srb/v1/completions",), completions, "srb",
        "n branches of a prompt as event lines", body=COMPLETION,
        query={"sse": {"type": "boolean"}, "rich": {"type": "boolean"}},
    ),
)
