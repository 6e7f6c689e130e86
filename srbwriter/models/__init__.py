"""Model files: those on this machine, the memory they need, and downloads.

Reads headers, never weights. It uses paths, files and the hub's HTTP interface; it never imports an engine, a
story or a face. ``pull`` is imported by name, since it loads an HTTP client.
"""

from __future__ import annotations

from srbwriter.models.files import (
    DownloadCancelled,
    DownloadError,
    Header,
    ModelsError,
    is_model,
    read_header,
)
from srbwriter.models.fit import Need, free_memory, memory, need, size_words
from srbwriter.models.local import LocalModel, find, local_models, look_at
from srbwriter.models.recommended import (
    Machine,
    RecommendedModel,
    RecommendedModels,
    Suitability,
    read_recommended,
    recommend,
)

__all__ = [
    "DownloadCancelled", "DownloadError", "Header", "LocalModel", "Machine", "ModelsError", "Need",
    "RecommendedModel", "RecommendedModels", "Suitability", "find", "free_memory", "is_model",
    "local_models", "look_at", "memory", "need", "read_header", "read_recommended",
    "recommend", "size_words",
]  # fmt: skip
