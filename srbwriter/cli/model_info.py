"""``srbwriter models info``: what a model is, what it can do, and what its steps cost on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srbwriter import launch
from srbwriter.cli.columns import columns, document
from srbwriter.config import Settings, keys

if TYPE_CHECKING:
    from srbwriter.engine.costs import CostTable, Setting
    from srbwriter.engine.model import Model

_SHOWN = (1, 2, 4, 8, 16, 32)  # rows of a step
_YES = {True: "yes", False: "no"}


def show(file: Path, settings: Settings, *, as_json: bool, anew: bool) -> None:
    """Load the weights of ``file`` and print what is known of it. Raises ModelError.

    Times are measured unless they were before; ``anew`` measures them in any case.
    """
    from srbwriter.engine.costs import keep_table
    from srbwriter.engine.load_mark import marked
    from srbwriter.engine.measuring import measure, table_for, table_key
    from srbwriter.engine.model import Model
    from srbwriter.engine.native.weights import refuse_unsafe_tensors

    options = launch.engine_options(settings)
    with marked(file, options.load_anyway):
        refuse_unsafe_tensors(file)
        model = Model(file, options)
        try:
            if anew:
                table = measure(model, options)
                keep_table(table_key(file, options), table)
            else:
                table = table_for(model, options)
            facts = _facts(model, settings)
        finally:
            model.close()
    if as_json:
        print(document({**facts, "costs": _costs(table)}))
        return
    print(columns([(name.replace("_", " "), _words(name, value)) for name, value in facts.items()]))
    print()
    print(_page(table))


def _facts(model: Model, settings: Settings) -> dict[str, Any]:
    from srbwriter.engine.embedding import own_pooling
    from srbwriter.models import BadModelFile, quantisation, read_header

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
        "quantisation": quantisation(model.path.name),
        "size": model.size,
        "memory_needed": launch.model_need(settings, header, model.size).total,
        "context": model.n_ctx_train,
        "layers": model.n_layer,
        "width": model.n_embd,
        "vocabulary": model.n_vocab,
        "chat_template": model.chat_template is not None,
        "fills_gaps": model.fim is not None,
        "ranks_texts": pooling == "rank",
        "embeddings": settings[keys.POOLING] or (pooling if pooling in ("mean", "cls", "last") else "mean"),
    }


def _words(name: str, value: object) -> str:
    from srbwriter.models import size_words

    if name in ("size", "memory_needed") and isinstance(value, int):
        return size_words(value)
    return _YES[value] if isinstance(value, bool) else f"{value:,}" if isinstance(value, int) else str(value)


# ---- what steps cost


def _costs(table: CostTable) -> dict[str, Any]:
    return {
        "threads": table.usual.threads,
        "flash_attention": table.flash,
        "steady": table.steady,
        "measured_seconds": round(table.took, 3),
        "steps": [
            {**point.setting._asdict(), "rows": point.rows, "cells": point.cells, "seconds": point.seconds}
            for point in table.points
        ],
        "prompt_tokens_per_second": _rate(table.prompt),
        "copy_out_per_second": _rate(table.copy_out),
        "copy_in_per_second": _rate(table.copy_in),
        "state_bytes": table.state_bytes,
        "padded": _padded(table),
        "split": _split(table),
    }


def _padded(table: CostTable) -> dict[int, int]:
    """Steps that are sooner done with more rows, and how many."""
    return {rows: more for rows in range(1, 33) if (more := table.padded(rows)) != rows}


def _split(table: CostTable) -> dict[int, Sequence[int]]:
    """Steps that are sooner done in parts, and which."""
    return {rows: parts for rows in range(2, 9) if len(parts := table.split(rows)) > 1}


def _rate(seconds: float) -> float | None:
    return round(1 / seconds, 1) if seconds else None


def _page(table: CostTable) -> str:
    head = ("milliseconds of a step", *(f"{rows} rows" if rows > 1 else "1 row" for rows in _SHOWN))
    lines: list[Sequence[str]] = [head]
    for setting in table.settings:
        for cells in sorted({point.cells for point in table.points if point.setting == setting}):
            lines.append((_named(setting, cells), *_times(table, setting, cells)))
    parts = [columns(lines, right=range(1, len(head))), *_sentences(table)]
    return "\n".join(parts)


def _named(setting: Setting, cells: int) -> str:
    threads = f"{setting.threads} thread" + "s" * (setting.threads > 1)
    return f"{threads}, flash attention {'on' if setting.flash else 'off'}, {cells or 'no'} cells before"


def _times(table: CostTable, setting: Setting, cells: int) -> list[str]:
    known = {p.rows: p.seconds for p in table.points if p.setting == setting and p.cells == cells}
    return [f"{known[rows] * 1000:.2f}" if rows in known else "" for rows in _SHOWN]


def _sentences(table: CostTable) -> list[str]:
    lines: list[str] = []
    if table.prompt:
        lines.append(f"a prompt is read at {1 / table.prompt:,.0f} tokens a second")
    if table.copy_in and table.copy_out:
        unit = "states" if table.whole else "tokens"
        out, back = (f"{1 / seconds:,.0f}" for seconds in (table.copy_out, table.copy_in))
        lines.append(f"{unit} go from the cache to memory at {out} a second, and come back at {back}")
    if padded := [f"{rows} to {more}" for rows, more in _padded(table).items()]:
        lines.append(f"steps that are sooner done with more rows: {', '.join(padded)}")
    if split := [f"{rows} as {'+'.join(map(str, parts))}" for rows, parts in _split(table).items()]:
        lines.append(f"steps that are sooner done in parts: {', '.join(split)}")
    if table.steady:
        lines.append(f"the faster way: flash attention {'on' if table.flash else 'off'} (--flash-attn)")
    else:
        lines.append("other programs were running meanwhile, so nothing is chosen by these times (--measure)")
    return lines
