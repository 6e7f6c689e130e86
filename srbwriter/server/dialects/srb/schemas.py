"""JSON schemas of what SRB's routes are sent."""

from __future__ import annotations

from srbwriter.server.dialects.srb.completions import PRIORITIES
from srbwriter.server.schemas import COUNT, FIELDS, PROMPT, object_of

PARENT = {
    "type": "object",
    "description": "A branch to continue token by token.",
    "properties": {
        "request": {"type": "string"},
        "branch": COUNT,
        "chars": {**COUNT, "description": "Only so much of its text."},
    },
}

BRANCHES = object_of(
    prompt={**PROMPT, "description": "Text or token ids; after a parent, what was typed since."},
    parent=PARENT,
    wish={
        "type": "string",
        "description": "What the branches are to be like, as a note near the end of the text.",
    },
    logprobs=COUNT,
    priority={"type": "string", "enum": [*PRIORITIES], "default": "normal"},
    rich="boolean",
    **FIELDS,
    example={"prompt": "Once upon a time,", "n": 2, "max_tokens": 16},
)
