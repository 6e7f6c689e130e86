"""Model files: which there are on this machine, what they need, and how more of them get here.

Reads headers, never weights. It knows paths, files and the hub's HTTP interface; it must never know an
engine, a story or a face. How large a context will be is told to it by whoever starts engines: ``launch``
puts the two together for every face, and faces may also list, find and fetch models here themselves. What
needs the network (``hub``, ``pull``) is imported by name, since it loads an HTTP client.
"""

from __future__ import annotations

from srbwriter.models.files import (
    BadModelFile,
    DownloadError,
    Header,
    ModelsError,
    NoSuchModel,
    file_quantisation,
    is_model,
    parts_of,
    quantisation,
    read_header,
)
from srbwriter.models.fit import Need, Run, Wanted, memory, memory_budget, need, size_words, url_file
from srbwriter.models.local import LocalModel, add, find, local_files, local_models, look_at, pulled

__all__ = [
    "BadModelFile", "DownloadError", "Header", "LocalModel", "ModelsError", "Need", "NoSuchModel", "Run",
    "Wanted", "add", "file_quantisation", "find", "is_model", "local_files", "local_models", "look_at",
    "memory", "memory_budget", "need", "parts_of", "pulled", "quantisation", "read_header", "size_words",
    "url_file",
]  # fmt: skip
