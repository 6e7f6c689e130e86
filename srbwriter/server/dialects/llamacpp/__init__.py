"""llama.cpp's own dialect, as its server speaks it: its rows. Knows no other dialect."""

from __future__ import annotations

from srbwriter.server.dialects.llamacpp.completion import (
    apply_template,
    completion,
    detokenize,
    infill,
    tokenize,
)
from srbwriter.server.dialects.llamacpp.status import (
    change_props,
    health,
    load,
    lora_adapters,
    metrics,
    props,
    pull,
    set_lora_adapters,
    slot_action,
    slots,
    unload,
)
from srbwriter.server.embeddings import native_embeddings, rerank
from srbwriter.server.endpoints import (
    CHAT,
    INFILL,
    LORA,
    NATIVE,
    NATIVE_EMBEDDINGS,
    RERANK,
    Endpoint,
    object_of,
)

_SWITCH = {"type": "boolean"}
_MODEL = object_of(model="string")

ENDPOINTS = (
    Endpoint(
        "GET",
        ("/health", "/v1/health"),
        health,
        "llamacpp",
        "whether the model is ready",
        query={"include_slots": _SWITCH, "fail_on_no_slot": _SWITCH},
        public=True,
    ),
    Endpoint(
        "POST",
        ("/completion", "/completions"),
        completion,
        "llamacpp",
        "branches of one or several prompts",
        body=NATIVE,
    ),
    Endpoint("POST", ("/infill",), infill, "llamacpp", "text for the gap between two texts", body=INFILL),
    Endpoint(
        "POST",
        ("/tokenize", "/v1/tokenize"),
        tokenize,
        "llamacpp",
        "text as token ids",
        body=object_of(
            content="string", add_special="boolean", parse_special="boolean", with_pieces="boolean"
        ),
    ),
    Endpoint(
        "POST",
        ("/detokenize", "/v1/detokenize"),
        detokenize,
        "llamacpp",
        "token ids as text",
        body=object_of(tokens="array"),
    ),
    Endpoint(
        "POST", ("/apply-template",), apply_template, "llamacpp", "a conversation as one prompt", body=CHAT
    ),
    Endpoint(
        "POST",
        ("/embedding", "/embeddings"),
        native_embeddings,
        "llamacpp",
        "embeddings of texts",
        body=NATIVE_EMBEDDINGS,
    ),
    Endpoint(
        "POST",
        ("/v1/rerank", "/rerank", "/v1/reranking", "/reranking"),
        rerank,
        "llamacpp",
        "how well texts answer a question, best first; for models with a head for it",
        body=RERANK,
    ),
    Endpoint("GET", ("/props",), props, "llamacpp", "the server's settings and the model's"),
    Endpoint("POST", ("/props",), change_props, "llamacpp", "change settings; not possible here"),
    Endpoint(
        "GET", ("/slots",), slots, "llamacpp", "what every slot is doing", query={"fail_on_no_slot": _SWITCH}
    ),
    Endpoint(
        "POST",
        ("/slots/{slot}",),
        slot_action,
        "llamacpp",
        "save, restore or erase a slot",
        body=object_of(filename="string"),
        query={"action": {"type": "string", "enum": ["save", "restore", "erase"]}},
    ),
    Endpoint("POST", ("/models/load",), load, "llamacpp", "load a model", body=_MODEL, chooses=False),
    Endpoint("POST", ("/models/unload",), unload, "llamacpp", "unload a model", body=_MODEL, chooses=False),
    Endpoint("POST", ("/models/pull",), pull, "llamacpp", "fetch a model; not possible here"),
    Endpoint("GET", ("/metrics",), metrics, "llamacpp", "figures for Prometheus"),
    Endpoint("GET", ("/lora-adapters",), lora_adapters, "llamacpp", "LoRA adapters and their scales"),
    Endpoint(
        "POST",
        ("/lora-adapters",),
        set_lora_adapters,
        "llamacpp",
        "how much of each LoRA adapter is usual from now on",
        body=LORA,
    ),
)
