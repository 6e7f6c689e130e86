"""JSON schemas of what llama.cpp's routes are sent."""

from __future__ import annotations

from srbwriter.server.schemas import (
    COUNT,
    FIELDS,
    OBJECTS,
    PROMPT,
    SWITCHES,
    TEXTS,
    object_of,
)

NATIVE = object_of(
    "prompt",
    prompt=PROMPT,
    n_probs=COUNT,
    return_tokens="boolean",
    return_progress="boolean",
    timings_per_token="boolean",
    id_slot={"type": "integer", "minimum": -1},
    penalty_prompt={**PROMPT, "description": "What penalties look back at instead of the prompt."},
    post_sampling_probs="boolean",
    response_fields=TEXTS,
    **SWITCHES,
    **FIELDS,
)

INFILL = object_of(
    "input_prefix input_suffix", input_prefix="string", input_suffix="string", prompt="string",
    input_extra=OBJECTS, **SWITCHES, **FIELDS,
)  # fmt: skip
