"""llama-cpp-python's own `Llama`, opened so that it runs where its AMX code is broken (`native.amx`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import llama_cpp.llama_cpp as bindings
from llama_cpp import Llama

from srbwriter.engine.native.amx import weights_may_be_repacked


def open_model(path: Path, **settings: Any) -> Llama:
    """`Llama(path, **settings)`; it offers no argument for the one parameter that matters here."""
    params = bindings.llama_model_default_params()
    params.use_extra_bufts = weights_may_be_repacked()
    with mock.patch.object(bindings, "llama_model_default_params", lambda: params):
        return Llama(str(path), verbose=False, **settings)
