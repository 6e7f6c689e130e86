"""Flags come from the table, and each of llama-server's spellings means what it means there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from srbwriter.cli import flags
from srbwriter.cli.exits import Failure
from srbwriter.cli.table import every_key
from srbwriter.config.keys import SECTIONS

KEYS = every_key()


def said(*arguments: str, sections: Sequence[str] = tuple(SECTIONS)) -> dict[str, Any]:
    values, wrong = read(*arguments, sections=sections)
    assert wrong == []
    return values


def read(*arguments: str, sections: Sequence[str] = tuple(SECTIONS)) -> tuple[dict[str, Any], list[str]]:
    """The settings of a command line, and what is wrong with it."""
    parser = flags.Parser("srbwriter")
    flags.add_keys(parser, KEYS, sections)
    found = parser.read(flags.joined(arguments))
    return flags.chosen(found, KEYS), list(found.problems)


SPELLINGS = (
    ("-m a.gguf", "model.path", Path("a.gguf")),
    ("--model a.gguf", "model.path", Path("a.gguf")),
    ("-c 512", "model.ctx_size", 512),
    ("-t 3", "model.threads", 3),
    ("-tb 5", "model.threads_batch", 5),
    ("-b 64", "model.batch_size", 64),
    ("-ub 32", "model.ubatch_size", 32),
    ("-ngl 20", "model.gpu_layers", 20),
    ("-ngl all", "model.gpu_layers", -1),
    ("--n-gpu-layers 0", "model.gpu_layers", 0),
    ("-mg 1", "model.main_gpu", 1),
    ("-ts 3,1", "model.tensor_split", (3.0, 1.0)),
    ("--mlock", "model.mlock", True),
    ("--no-mmap", "model.mmap", False),
    ("--numa isolate", "model.numa", "isolate"),
    ("--numa", "model.numa", "distribute"),
    ("--lora a.gguf --lora b.gguf", "model.lora", ("a.gguf", "b.gguf")),
    ("--lora-scaled a.gguf 0.5 --lora b.gguf", "model.lora", ("a.gguf:0.5", "b.gguf")),
    ("--lora-scaled a.gguf -1e-1", "model.lora", ("a.gguf:-1e-1",)),
    ("--lora-scaled a.gguf:0.5,b.gguf:2", "model.lora", ("a.gguf:0.5,b.gguf:2",)),
    ("--pooling mean", "model.pooling", "mean"),
    ("-fa on", "model.flash_attn", "on"),
    ("-ctk q8_0", "model.cache_type_k", "q8_0"),
    ("--cache-type-v q4_0", "model.cache_type_v", "q4_0"),
    ("-s 7", "generation.seed", 7),
    ("--stop a --stop b", "generation.stop", ("a", "b")),
    ("--temp 0", "sampling.temperature", 0.0),
    ("--top-k 0", "sampling.top_k", 0),
    ("--samplers top_k;temperature", "sampling.samplers", ("top_k", "temperature")),
    ("--n-predict -1", "generation.max_tokens", -1),
)


OF_A_SERVER = (
    ("--host 0.0.0.0", "server.host", ("0.0.0.0",)),
    ("--port 9091", "server.port", 9091),
    ("--n 3", "generation.n", 3),
    ("-n 3", "generation.n", 3),
    ("--max-n 9", "generation.max_n", 9),
    ("--parallel 9", "generation.max_n", 9),
    ("-np 9", "generation.max_n", 9),
    ("--n-predict 9", "generation.max_tokens", 9),
    ("--alias story", "server.alias", "story"),
    ("-a story", "server.alias", "story"),
    ("--api-key a --api-key b", "server.api_keys", ("a", "b")),
    ("--api-key-file f", "server.api_key_file", Path("f")),
    ("--cors-origins https://a.example", "server.cors_origins", ("https://a.example",)),
    ("--metrics", "server.metrics", True),
    ("--slots", "server.slots", True),
    ("--no-slots", "server.slots", False),
    ("--slots-endpoint-disable", "server.slots", False),
    ("--system-prompt-file f", "server.system_prompt_file", Path("f")),
    ("-spf f", "server.system_prompt_file", Path("f")),
    ("--chat-template chatml", "server.chat_template", "chatml"),
    ("--chat-template-file f", "server.chat_template_file", Path("f")),
    ("--timeout 5", "server.timeout", 5.0),
    ("-to 5", "server.timeout", 5.0),
    ("--path d", "server.static_path", Path("d")),
    ("--no-page", "server.page", False),
    ("--ssl-key-file f", "server.ssl_key_file", Path("f")),
    ("--ssl-cert-file f", "server.ssl_cert_file", Path("f")),
    ("--unix-socket f", "server.unix_socket", Path("f")),
    ("--log-format json", "server.log_format", "json"),
    ("--log-format text", "server.log_format", "text"),
    ("--log-disable", "server.access_log", False),
    ("--insecure", "server.insecure", True),
    ("--share-cache", "server.share_cache", True),
)
"""Every flag that a server must take and that sets something: line, key, value."""

WITHOUT_EFFECT = (
    ("--cont-batching", ""),
    ("-cb", ""),
    ("--no-cont-batching", "always batched"),
    ("--threads-http 4", "one event loop"),
    ("--embedding", "always answered"),
    ("--embeddings", "always answered"),
    ("--rerank", "are not ranked"),
    ("--reranking", "are not ranked"),
    ("--no-mmproj", ""),
)
"""Every flag that a server must take and that changes nothing: line, and part of what is said about it."""


def test_every_spelling_is_taken() -> None:
    for line, name, value in (*SPELLINGS, *OF_A_SERVER):
        assert said(*line.split()) == {name: value}, line


def test_flags_without_effect_are_taken_and_said() -> None:
    parser = flags.Parser("srbwriter")
    flags.add_keys(parser, KEYS, tuple(SECTIONS))
    for line, words in WITHOUT_EFFECT:
        arguments = parser.read(line.split())
        assert flags.chosen(arguments, KEYS) == {}
        assert len(arguments.remarks) == bool(words)
        assert all(one.startswith(f"{line.split()[0]}: ") and words in one for one in arguments.remarks)
    arguments = parser.read(["--threads-http", "4", "--embedding"])
    assert [remark.split(":")[0] for remark in arguments.remarks] == ["--threads-http", "--embedding"]


def test_refused_flags_say_why() -> None:
    for spellings, reason, _ in flags.FOREIGN:
        for flag in spellings:
            for arguments in ([flag], [flag, "4"]):
                assert read(*arguments)[1] == [f"{flag}: {reason}"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("-c many", "-c 'many': expected a whole number, 16 or more"),
        ("-fa onn", "-fa 'onn': expected one of auto, on, off"),
        ("--n 65", "--n '65': expected a whole number from 1 to 64"),
        ("--temp nan", "--temp 'nan': expected a number from 0 to 100"),
        ("-ts 1;2", "-ts '1;2': expected numbers, separated by commas"),
        ("--temprature=0.9", "unknown flag --temprature — `srbwriter --help` lists those there are"),
        (
            "--ctx 512",
            "unknown flag --ctx — `srbwriter --help` lists those there are",
        ),  # nothing is abbreviated
        ("a", "'a' is one word too many — `srbwriter --help` shows the usage"),
    ],
)
def test_what_is_wrong_is_said_with_its_cure(line: str, problem: str) -> None:
    assert read(*line.split()) == ({}, [problem])


def test_a_value_that_is_missing_is_said_with_what_is_expected() -> None:
    with pytest.raises(Failure, match="--n: its value is missing: expected a whole number from 1 to 64"):
        read("--mlock", "--n")


def test_help_names_every_flag_and_default() -> None:
    parser = flags.Parser("srbwriter")
    flags.add_keys(parser, KEYS, tuple(SECTIONS))
    shown = parser.format_help()
    for key in KEYS:
        assert all(flag in shown for flag in key.flags), key.name
    words = set(re.findall(r"[-\w]+", shown))
    assert words.isdisjoint(flag for foreign in flags.FOREIGN for flag in foreign.flags)
