"""The dialect's rows."""

from __future__ import annotations

from srbwriter.server.endpoint import Endpoint

from .status import health

ENDPOINTS = (
    Endpoint("GET", ("/health", "/v1/health"), health, "llamacpp", "whether the model is ready", public=True),
)
