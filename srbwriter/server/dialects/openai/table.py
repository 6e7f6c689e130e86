"""The dialect's rows. ``/v1/completions`` is shared with another dialect and stands with both."""

from __future__ import annotations

from srbwriter.server.embeddings import openai_embeddings
from srbwriter.server.endpoint import Endpoint
from srbwriter.server.schema import CHAT, EMBEDDINGS, RESPONSES

from .chat import chat_completions, input_tokens
from .models import model, models
from .responses import responses

ENDPOINTS = (
    Endpoint(
        "POST",
        ("/v1/chat/completions", "/chat/completions"),
        chat_completions,
        "openai",
        "choices for a conversation",
        body=CHAT,
    ),
    Endpoint(
        "POST",
        ("/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"),
        input_tokens,
        "openai",
        "how many tokens a conversation is",
        body=CHAT,
    ),
    Endpoint(
        "POST",
        ("/v1/responses", "/responses"),
        responses,
        "openai",
        "a response to text or a conversation",
        body=RESPONSES,
    ),
    Endpoint("GET", ("/v1/models", "/models"), models, "openai", "the loaded model"),
    Endpoint(
        "GET", ("/v1/models/{model:path}", "/models/{model:path}"), model, "openai", "one model by name"
    ),
    Endpoint(
        "POST", ("/v1/embeddings",), openai_embeddings, "openai", "embeddings of texts", body=EMBEDDINGS
    ),
)
