"""The list of models to choose from is that of ``srbwriter models``."""

from __future__ import annotations

from pathlib import Path

from srbwriter import paths
from srbwriter.cli.table import every_key
from srbwriter.config import load
from srbwriter.demo import bundled_model
from srbwriter.tui.dialogs.choices import model_choices
from srbwriter.tui.dialogs.model_fetch import ModelFetch
from srbwriter.tui.options import Preferences
from tests.models.gguf_files import put


def test_every_model_of_this_machine_can_be_chosen() -> None:
    file = put(paths.models_dir() / "o" / "novelist.gguf")
    bad = put(paths.models_dir() / "bad.gguf", b"no model")
    choices = model_choices(Preferences(load(every_key(), {}, {})), ModelFetch())
    listed = {choice.value: choice for choice in choices if isinstance(choice.value, Path)}
    assert list(listed) == [bundled_model(), bad, file]
    assert listed[file].title == "novelist" and "of memory: fits; models folder" in listed[file].about
    assert "cannot be used: not a GGUF file" in listed[bad].about
