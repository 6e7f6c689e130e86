"""What vLLM's and aphrodite's clients ask for beside completions, which are OpenAI's."""

from __future__ import annotations

from srbwriter.server.endpoints import Leaf, respond, rows_of
from srbwriter.server.errors import OPENAI
from srbwriter.version import __version__

_row = rows_of(OPENAI, "vLLM and aphrodite")
LEAF = Leaf(
    rows=(
        _row("GET /version", respond(lambda _: {"version": __version__}), "the program's version"),
        _row("GET /ping", respond(lambda _: {}, ready=True), "whether it can answer"),
        _row(
            "GET /load",
            respond(lambda context: {"server_load": len(context.services.registry.live())}),
            "how many requests are being answered",
        ),
    )
)
