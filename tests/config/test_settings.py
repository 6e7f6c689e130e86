"""Ranking of sources, and complaints that name the place, the key and the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter import launch, paths
from srbwriter.cli.table import every_key
from srbwriter.config import ConfigError, Key, keys, load, remember

TABLE = every_key()
STOP: Key[tuple[str, ...]] = TABLE["generation.stop"]


def write_config(text: str) -> Path:
    paths.config_dir().mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text(text, "utf-8")
    return paths.config_file()


def problems() -> list[str]:
    """What is said of settings that are wrong."""
    with pytest.raises(ConfigError) as caught:
        load(TABLE, {}, {})
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("said", "value", "source"),
    [
        ((), 8, "default"),
        (("remembered",), 2, "remembered"),
        (("remembered", "file"), 3, "file"),
        (("remembered", "file", "environment"), 4, "environment"),
        (("remembered", "file", "environment", "flag"), 5, "flag"),
        (("remembered", "flag"), 5, "flag"),
        (("file", "flag"), 5, "flag"),
        (("remembered", "environment"), 4, "environment"),
    ],
)
def test_the_nearer_source_wins(home: Path, said: tuple[str, ...], value: int, source: str) -> None:
    if "remembered" in said:
        remember(TABLE, {keys.N: 2})
    if "file" in said:
        write_config("[generation]\nn = 3\n")
    environment = {keys.N.env: "4"} if "environment" in said else {}
    flags = {keys.N.name: 5} if "flag" in said else {}
    settings = load(TABLE, flags, environment)
    assert (settings[keys.N], settings.source(keys.N)) == (value, source)


def test_the_writers_file_is_never_written(home: Path) -> None:
    file = write_config("[generation]\nn = 3 # mine\n")
    before = (file.read_bytes(), file.stat().st_mtime_ns)
    remember(TABLE, {keys.N: 9, keys.MODEL: Path("/models/a.gguf")})
    load(TABLE, {}, {})
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert sorted(x.name for x in paths.config_dir().iterdir()) == ["config.toml"]


def test_a_wrong_value_names_file_key_value_and_expectation(home: Path) -> None:
    for line, expected in {
        'ctx_size = "big"': "a whole number, 16 or more",
        "ctx_size = -1": "a whole number, 16 or more",
        "ctx_size = true": "a whole number, 16 or more",
        "ctx_size = 1.5": "a whole number, 16 or more",
        "mlock = 1": "true or false",
        'flash_attn = "maybe"': "one of auto, on, off",
        "flash_attn = true": "one of auto, on, off",
        'tensor_split = "3,1"': "numbers, separated by commas",
        "tensor_split = [3, nan]": "numbers, separated by commas",
        "path = 3": "a path",
        'path = ""': "a path",
        "gpu_layers = -2": "a whole number, or all, -1 or more",
    }.items():
        file = write_config(f"[model]\n{line}\n")
        (message,) = problems()
        assert message.startswith(f"{file}:2: model.{line.partition(' ')[0]} = ")
        assert message.endswith(f"expected {expected}")


def test_a_relative_path_in_a_file_lies_beside_the_file(home: Path) -> None:
    file = write_config('[model]\npath = "novelist.gguf"\n')
    assert load(TABLE, {}, {})[keys.MODEL] == file.parent / "novelist.gguf"
    file.write_text('[model]\npath = "/models/novelist.gguf"\n', "utf-8")
    assert load(TABLE, {}, {})[keys.MODEL] == Path("/models/novelist.gguf")


@pytest.mark.parametrize("remembered", [{}, {keys.N: 9}])
def test_a_number_of_branches_that_nobody_said_gives_way_to_the_most(
    home: Path, remembered: dict[Key[int], int]
) -> None:
    remember(TABLE, remembered)
    assert launch.branches(load(TABLE, {keys.MAX_N.name: 4}, {})) == 4


@pytest.mark.parametrize("name", ["sampling.infill", "model.ctx_sise", "keys.tree_up"])
def test_an_unknown_setting_is_one_notice(home: Path, name: str) -> None:
    write_config(f"{name} = [1]\ngeneration.n = 3\n")
    settings = load(TABLE, {}, {})
    (notice,) = settings.warnings
    assert f"{paths.config_file()}" in notice and f"unknown key {name}" in notice and settings[keys.N] == 3
    write_config("")
    variable = f"SRBWRITER_{name.replace('.', '_').upper()}"
    (notice,) = load(TABLE, {}, {variable: "whatever"}).warnings
    assert variable in notice and "no effect" in notice


@pytest.mark.parametrize("damage", [b"\xff", b"[generation", b"[generation]\nnn = 1\n", b"generation = 3\n"])
def test_a_damaged_overlay_is_a_warning(home: Path, damage: bytes) -> None:
    paths.overlay_file().parent.mkdir(parents=True)
    paths.overlay_file().write_bytes(damage)
    settings = load(TABLE, {}, {})
    assert settings[keys.N] == keys.N.default
    assert str(paths.overlay_file()) in settings.warnings[0]


def test_remembering_keeps_what_was_remembered(home: Path) -> None:
    remember(TABLE, {keys.N: 3, STOP: ("\n\n", 'a "b"')})
    remember(TABLE, {keys.MODEL: Path("/m.gguf")})
    settings = load(TABLE, {}, {})
    assert (settings[keys.N], settings[STOP]) == (3, ("\n\n", 'a "b"'))
    assert settings[keys.MODEL] == Path("/m.gguf")
    remember(TABLE, {keys.N: None})
    assert load(TABLE, {}, {}).source(keys.N) == "default"
    assert load(TABLE, {}, {})[keys.MODEL] == Path("/m.gguf")


def test_every_default_is_a_value_of_its_key() -> None:
    for key in TABLE:
        if key.default is not None and not isinstance(key.default, Path):
            toml = list(key.default) if isinstance(key.default, tuple) else key.default
            assert key.read_toml(toml) == key.default, key.name


def test_names_variables_and_flags_are_unique() -> None:
    rows = list(TABLE)
    flags = [flag for key in rows for flag in key.flags]
    for spellings in ([key.name for key in rows], [key.env for key in rows], flags):
        assert len(spellings) == len(set(spellings))
    assert all(key.section in keys.SECTIONS and key.help for key in rows)
