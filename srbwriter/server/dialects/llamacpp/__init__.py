"""llama.cpp's own dialect, as its server speaks it: its rows. Knows no other dialect."""

from __future__ import annotations

from srbwriter.server.dialects.llamacpp.completion import (
    apply_template,
    completion,
    detokenize,
    infill,
    tokenize,
)
from srbwriter.server.dialects.llamacpp.schemas import INFILL, NATIVE
from srbwriter.server.dialects.llamacpp.slots import slot_action, slots
from srbwriter.server.dialects.llamacpp.status import (
    change_props,
    health,
    lora_adapters,
    metrics,
    props,
)
from srbwriter.server.endpoints import Leaf, rows_of
from srbwriter.server.errors import LLAMACPP
from srbwriter.server.schemas import CHAT, object_of

_SWITCH = {"type": "boolean"}
_row = rows_of(LLAMACPP, "llama.cpp")
_ROWS = (
    _row("GET /health /v1/health", health, "whether the model is ready", public=True,
         query={"include_slots": _SWITCH, "fail_on_no_slot": _SWITCH}),
    _row("POST /completion /completions", completion, "branches of one or several prompts", body=NATIVE),
    _row("POST /infill", infill, "text for the gap between two texts", body=INFILL),
    _row("POST /tokenize /v1/tokenize", tokenize, "text as token ids",
         body=object_of(content="string", add_special="boolean", parse_special="boolean",
                        with_pieces="boolean")),
    _row("POST /detokenize /v1/detokenize", detokenize, "token ids as text",
         body=object_of("tokens", tokens="array")),
    _row("POST /apply-template", apply_template, "a conversation as one prompt", body=CHAT),
    _row("GET /props", props, "the server's settings and the model's"),
    _row("POST /props", change_props, "change settings; not possible here"),
    _row("GET /slots", slots, "what every slot is doing", query={"fail_on_no_slot": _SWITCH}),
    _row("POST /slots/{slot}", slot_action, "save, restore or erase a slot",
         body=object_of(filename="string"),
         query={"action": {"type": "string", "enum": ["save", "restore", "erase"]}}),
    _row("GET /metrics", metrics, "figures for Prometheus"),
    _row("GET /lora-adapters", lora_adapters, "LoRA adapters and their scales"),
)  # fmt: skip
LEAF = Leaf(rows=_ROWS)
