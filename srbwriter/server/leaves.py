"""The table of leaves: each dialect, the pages and the line protocol is a module with a ``LEAF``.

The rest of the server knows a leaf only by its line here; deleting the module and its line deletes the
feature. Rows of an earlier leaf are tried first.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from srbwriter.server.endpoints import Leaf

_NAMES = (
    "dialects.srb",
    "dialects.openai",
    "dialects.llamacpp",
    "dialects.embeddings",
    "dialects.kobold",
    "dialects.ooba",
    "dialects.exllama",
    "dialects.ollama",
    "page",
    "lines",
)

LEAVES: Mapping[str, Leaf] = {name: import_module(f"srbwriter.server.{name}").LEAF for name in _NAMES}
