"""The dialect's rows."""

from __future__ import annotations

from srbwriter.server.embeddings import native_embeddings, rerank
from srbwriter.server.endpoint import Endpoint
from srbwriter.server.lora import lora_adapters, set_lora_adapters
from srbwriter.server.schema import CHAT, INFILL, LORA, NATIVE, NATIVE_EMBEDDINGS, RERANK, object_of

from .completion import completion, infill
from .status import (
    change_props,
    health,
    metrics,
    props,
    slot_action,
    slots,
)
from .tokens import apply_template, detokenize, tokenize

_SWITCH = {"type": "boolean"}

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
        ("/tokenize",),
        tokenize,
        "llamacpp",
        "text as token ids",
        body=object_of(
            content="string", add_special="boolean", parse_special="boolean", with_pieces="boolean"
        ),
    ),
    Endpoint(
        "POST", ("/detokenize",), detokenize, "llamacpp", "token ids as text", body=object_of(tokens="array")
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
