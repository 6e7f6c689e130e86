"""Every version of llama-cpp-python that is accepted binds the same llama.cpp as far as the engine uses it.

``binding.json`` holds what each accepted version says: the arguments of each function, the fields of each
structure, and the default of each parameter. To accept another version, install it, run
``python -m tests.engine.guards.test_binding``, which writes its record, and then the whole suite with it.
"""

from __future__ import annotations

import ctypes as C
import json
import re
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from srbwriter.engine.native import library as library_module
from srbwriter.engine.native.library import LONG, TESTED, L, library

NATIVE = Path(library_module.__file__).parent
RECORD = Path(__file__).with_name("binding.json")
DEFAULTS = (
    "llama_model_default_params",
    "llama_context_default_params",
    "llama_sampler_chain_default_params",
)


def name_of(kind: Any) -> str:
    return "None" if kind is None else getattr(kind, "__name__", str(kind))


def plain(value: Any) -> Any:
    """A default as JSON can hold it; of pointers and functions only whether they are set."""
    simple = value is None or isinstance(value, bool | int | float | str)
    return value if simple else bool(value)


def fields_of(structure: type[C.Structure]) -> list[list[Any]]:
    return [
        [field[0], name_of(field[1]), getattr(structure, field[0]).offset] for field in structure._fields_
    ]


def called() -> set[str]:
    """The functions that the engine names."""
    texts = (file.read_text("utf-8") for folder in (NATIVE, NATIVE.parent) for file in folder.glob("*.py"))
    named = {name for text in texts for name in re.findall(r"\bllama_\w+", text)}
    return {
        name for name in named if isinstance(getattr(getattr(L, name, None), "argtypes", None), list | tuple)
    }


def installed_binding() -> dict[str, Any]:
    """What the installed binding says of all that the engine uses."""
    library()
    functions = {
        name: [[name_of(kind) for kind in getattr(L, name).argtypes or ()], name_of(getattr(L, name).restype)]
        for name in sorted({*LONG, *DEFAULTS, *called()})
    }
    structures = {
        name: {"size": C.sizeof(kind), "fields": fields_of(kind)}
        for name, kind in sorted(vars(L).items())
        if isinstance(kind, type) and issubclass(kind, C.Structure) and hasattr(kind, "_fields_")
    }
    defaults = {}
    for name in DEFAULTS:
        made = getattr(L, name)()
        defaults[name] = {field[0]: plain(getattr(made, field[0])) for field in made._fields_}
    return {"functions": functions, "structures": structures, "defaults": defaults}


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return json.loads(RECORD.read_text())


def test_first_and_last_accepted_version_are_recorded(record: dict[str, Any]) -> None:
    for numbers in TESTED:
        assert ".".join(map(str, numbers)) in record


def test_all_accepted_versions_bind_the_same(record: dict[str, Any]) -> None:
    for one, other in pairwise(record):
        assert record[one] == record[other], f"{one} and {other} differ: accept only one of them"


@pytest.mark.parametrize("part", ["functions", "structures", "defaults"])
def test_the_installed_version_is_as_it_was_recorded(record: dict[str, Any], part: str) -> None:
    assert json.loads(json.dumps(installed_binding()[part])) == record[version("llama-cpp-python")][part]


if __name__ == "__main__":
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    known[version("llama-cpp-python")] = installed_binding()
    RECORD.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
