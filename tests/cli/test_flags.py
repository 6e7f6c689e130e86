"""Flags come from the table, and each of llama-server's spellings means what it means there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from srbwriter.cli import flags
from srbwriter.cli.exits import Failure
from srbwriter.cli.table import every_key
from srbwriter.config.keys import SECTIONS

KEYS = every_key()


def said(*arguments: str) -> dict[str, Any]:
    """The settings of a command line."""
    parser = flags.Parser("srbwriter")
    flags.add_keys(parser, KEYS, tuple(SECTIONS))
    return flags.chosen(parser.parse_args(arguments), KEYS)


SPELLINGS = (
    ("-m a.gguf", "model.path", Path("a.gguf")),
    ("-c 512", "model.ctx_size", 512),
    ("-t 3", "model.threads", 3),
    ("-tb 5", "model.threads_batch", 5),
    ("-b 64", "model.batch_size", 64),
    ("-ub 32", "model.ubatch_size", 32),
    ("-ngl 20", "model.gpu_layers", 20),
    ("-ngl all", "model.gpu_layers", -1),
    ("-mg 1", "model.main_gpu", 1),
    ("-ts 3,1", "model.tensor_split", (3.0, 1.0)),
    ("--no-mmap", "model.mmap", False),
    ("--lora a.gguf --lora b.gguf", "model.lora", ("a.gguf", "b.gguf")),
    ("--lora-scaled a.gguf:0.5 --lora b.gguf", "model.lora", ("a.gguf:0.5", "b.gguf")),
    ("--lora-scaled a.gguf:0.5,b.gguf:2", "model.lora", ("a.gguf:0.5,b.gguf:2",)),
    ("-fa on", "model.flash_attn", "on"),
    ("-ctk q8_0", "model.cache_type_k", "q8_0"),
    ("-s 7", "generation.seed", 7),
    ("--stop a --stop b", "generation.stop", ("a", "b")),
    ("--samplers top_k;temperature", "sampling.samplers", ("top_k", "temperature")),
    ("--n-predict -1", "generation.max_tokens", -1),
)


OF_A_SERVER = (
    ("-n 3", "generation.n", 3),
    ("--parallel 9", "generation.max_n", 9),
    ("-np 9", "generation.max_n", 9),
    ("-a story", "server.alias", "story"),
    ("--api-key a --api-key b", "server.api_keys", ("a", "b")),
    ("--no-slots", "server.slots", False),
    ("-spf f", "server.system_prompt_file", Path("f")),
    ("-to 5", "server.timeout", 5.0),
    ("--path d", "server.static_path", Path("d")),
    ("--no-page", "server.page", False),
)
"""Flags of a server that are called otherwise than their settings: line, key, value."""

WITHOUT_EFFECT = (
    ("--cont-batching", "all requests are batched"),
    ("-cb", "all requests are batched"),
    ("--no-cont-batching", "all requests are batched"),
    ("--threads-http 4", "one event loop"),
    ("--embedding", "always answered"),
    ("--embeddings", "always answered"),
    ("--rerank", "are not ranked"),
    ("--reranking", "are not ranked"),
)
"""Every flag that a server must take and that changes nothing: line, and part of what is said about it."""


def test_every_spelling_is_taken() -> None:
    for line, name, value in (*SPELLINGS, *OF_A_SERVER):
        assert said(*line.split()) == {name: value}, line


def test_flags_without_effect_are_taken_and_said() -> None:
    parser = flags.Parser("srbwriter")
    flags.add_keys(parser, KEYS, tuple(SECTIONS))
    for line, words in WITHOUT_EFFECT:
        arguments = parser.parse_args(line.split())
        assert flags.chosen(arguments, KEYS) == {}
        assert len(arguments.remarks) == 1
        assert all(one.startswith(f"{line.split()[0]}: ") and words in one for one in arguments.remarks)
    arguments = parser.parse_args(["--threads-http", "4", "--embedding"])
    assert [remark.split(":")[0] for remark in arguments.remarks] == ["--threads-http", "--embedding"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("-c many", "--ctx-size/-c: 'many': expected a whole number, 16 or more"),
        ("-fa onn", "--flash-attn/-fa: 'onn': expected one of auto, on, off"),
        ("--n 65", "--n/-n: '65': expected a whole number from 1 to 64"),
        ("--temp nan", ": 'nan': expected a number from 0 to 100"),
        ("-ts 1;2", "'1;2': expected numbers, separated by commas"),
        ("--mlock --n", "--n/-n: expected one argument"),
        ("--ctx 512", "unrecognized arguments: --ctx 512"),  # nothing is abbreviated
    ],
)
def test_what_is_wrong_is_said_with_its_cure(line: str, problem: str) -> None:
    with pytest.raises(Failure) as refused:
        said(*line.split())
    assert f"{problem} — `srbwriter --help` shows the usage" in str(refused.value)


def test_help_names_every_flag_and_default() -> None:
    parser = flags.Parser("srbwriter")
    flags.add_keys(parser, KEYS, tuple(SECTIONS))
    shown = parser.format_help()
    for key in KEYS:
        assert all(flag in shown for flag in key.flags), key.name
