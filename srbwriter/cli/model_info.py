"""``srbwriter models info``: prints the properties of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from srbwriter import launch
from srbwriter.cli.columns import columns, document
from srbwriter.cli.exits import say
from srbwriter.config import Settings, keys

if TYPE_CHECKING:
    from srbwriter.engine.model import Model
    from srbwriter.engine.types import EngineOptions

_YES = {True: "yes", False: "no"}


def show(file: Path, settings: Settings, *, as_json: bool) -> None:
    """Load the weights of ``file`` and print the properties of the model. Raises ModelError."""
    from srbwriter.engine.model import Model
    from srbwriter.engine.native.weights import refuse_unsafe_tensors

    refuse_unsafe_tensors(file)
    options, notes = launch.fit_options(file, launch.engine_options(settings))
    model = Model(file, options)
    try:
        facts = _facts(model, settings, options)
    finally:
        model.close()
    if as_json:
        print(document(facts))
        return
    print(columns([(name.replace("_", " "), _words(name, value)) for name, value in facts.items()]))
    for note in notes:
        say(note)


def _facts(model: Model, settings: Settings, options: EngineOptions) -> dict[str, Any]:
    from srbwriter.engine.embedding import own_pooling
    from srbwriter.engine.sizing import where_it_runs
    from srbwriter.models import BadModelFile, file_quantisation, quantisation, read_header

    try:
        header = read_header(model.path)
    except BadModelFile:
        header = None
    pooling = own_pooling(model)
    cache = "recurrent" if model.recurrent else "hybrid" if model.hybrid else "attention"
    return {
        "name": model.name,
        "path": str(model.path),
        "kind": model.description,
        "architecture": model.architecture,
        "cache": cache,
        "parameters": model.n_params,
        "quantisation": file_quantisation(model.description) or quantisation(model.path.name),
        "size": model.size,
        "memory_needed": launch.model_need(settings, header, model.size).total,
        "runs_on": where_it_runs(options, model.n_layer),
        "context": model.n_ctx_train,
        "layers": model.n_layer,
        "width": model.n_embd,
        "vocabulary": model.n_vocab,
        "chat_template": model.chat_template is not None,
        "fills_gaps": model.fim is not None,
        "embeddings": settings[keys.POOLING] or (pooling if pooling in ("mean", "cls", "last") else "mean"),
    }


def _words(name: str, value: object) -> str:
    from srbwriter.engine.model import count_words
    from srbwriter.models import size_words

    if name == "parameters" and isinstance(value, int):
        return count_words(value)
    if name in ("size", "memory_needed") and isinstance(value, int):
        return size_words(value)
    return _YES[value] if isinstance(value, bool) else f"{value:,}" if isinstance(value, int) else str(value)
