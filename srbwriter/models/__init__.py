"""Model files: which there are on this machine, what they need, and how more of them get here.

Reads headers, never weights. It knows paths, files and the hub's HTTP interface; it must never know an
engine, a story or a face. How large a context will be is told to it by whoever starts engines: ``launch``
puts the two together for every face, and faces may also list, find and fetch models here themselves. What
needs the network (``hub``, ``download``, ``pull``) is imported by name, since it loads an HTTP client.
"""

from __future__ import annotations

from srbwriter.models.adding import add
from srbwriter.models.choosing import Wanted, url_file
from srbwriter.models.errors import BadModelFile, DownloadError, ModelsError, NoSuchModel
from srbwriter.models.estimate import Need, Run, need
from srbwriter.models.header import Header, read_header
from srbwriter.models.machine import memory, memory_budget, size_words
from srbwriter.models.names import Parts, hub_folder, parts_of, quantisation
from srbwriter.models.shelf import LocalModel, find, local_models, pulled, shelved

__all__ = [
    "BadModelFile",
    "DownloadError",
    "Header",
    "LocalModel",
    "ModelsError",
    "Need",
    "NoSuchModel",
    "Parts",
    "Run",
    "Wanted",
    "add",
    "find",
    "hub_folder",
    "local_models",
    "memory",
    "memory_budget",
    "need",
    "parts_of",
    "pulled",
    "quantisation",
    "read_header",
    "shelved",
    "size_words",
    "url_file",
]
