"""The programs that measure the bundled model; what trains it needs PyTorch and is not tried here."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter.demo import bundled_model
from tools.demo_model import evaluate

STORY = "Once upon a time, there was a little girl named Lily. She liked to play in the park."


def test_a_model_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "heldout_told.txt").write_text(STORY)
    (tmp_path / "heldout_mixed.txt").write_text(" ".join(sorted(STORY.split())))
    monkeypatch.setattr(evaluate, "OPENINGS", evaluate.OPENINGS[:1])
    monkeypatch.setattr("sys.argv", ["evaluate", str(bundled_model()), "--corpus", str(tmp_path)])
    evaluate.main()
    printed = dict(line.split()[:2] for line in capsys.readouterr().out.splitlines())
    assert 0 < float(printed["heldout_told"]) < float(printed["heldout_mixed"])
    assert 0 < float(printed["distinct_4"]) <= 1 and float(printed["bent_names"]) >= 0
