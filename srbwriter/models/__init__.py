"""Model files: those on this machine, the memory they need, and downloads.

Reads headers, never weights. It uses paths, files and the hub's HTTP interface; it never imports an engine, a
story or a face. ``launch`` passes in the size of the context, for every face; faces may also list, find and
fetch models directly. Modules that use the network (``hub``, ``pull``) are imported by name, since they load
an HTTP client.
"""

from __future__ import annotations

from srbwriter.models.files import (
    BadModelFile,
    Cancelled,
    DamagedDownload,
    DownloadError,
    GatedRepository,
    Header,
    Interrupted,
    MirrorUnreachable,
    MissingFile,
    MissingRepository,
    ModelsError,
    NoSpace,
    NoSuchModel,
    Offline,
    file_quantisation,
    is_model,
    parts_of,
    quantisation,
    read_header,
)
from srbwriter.models.fit import Need, Run, Wanted, memory, memory_budget, need, size_words, url_file
from srbwriter.models.local import LocalModel, add, find, local_files, local_models, look_at, pulled
from srbwriter.models.recommended import (
    RecommendedModel,
    RecommendedModels,
    Suitability,
    read_recommended,
    recommend,
)
from srbwriter.models.speed import LEAST_WORDS, Machine, Pace, Speed
from srbwriter.models.transfer import Transfer, TransferMeter

__all__ = [
    "LEAST_WORDS", "BadModelFile", "Cancelled", "DamagedDownload", "DownloadError", "GatedRepository",
    "Header", "Interrupted", "LocalModel", "Machine", "MirrorUnreachable", "MissingFile",
    "MissingRepository", "ModelsError", "Need", "NoSpace", "NoSuchModel", "Offline", "Pace",
    "RecommendedModel", "RecommendedModels", "Run", "Speed", "Suitability", "Transfer", "TransferMeter",
    "Wanted", "add", "file_quantisation", "find", "is_model", "local_files", "local_models", "look_at",
    "memory", "memory_budget", "need", "parts_of", "pulled", "quantisation", "read_header",
    "read_recommended", "recommend", "size_words", "url_file",
]  # fmt: skip
