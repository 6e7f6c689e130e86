"""Devices of llama.cpp's: those of this machine, and how a person is told which of them run a model."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from srbwriter.engine.devices import Device, Kind, device_words, gpus
from srbwriter.engine.native.devices import read_build, read_devices


def device(name: str, kind: Kind) -> Device:
    return Device(name, f"Product {name}", kind, 1 << 30, 2 << 30)


def test_there_is_a_processor_with_memory_and_a_backend_for_it() -> None:
    [processor] = [device for device in read_devices() if device.kind == "cpu"]
    assert 0 < processor.free <= processor.total
    assert "CPU" in read_build().backends and read_build().ggml


def test_the_probe_prints_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "srbwriter.engine.probe"], capture_output=True, text=True, check=True
    )
    reported = json.loads(done.stdout)
    assert [row["name"] for row in reported["devices"]] == [device.name for device in read_devices()]


def test_a_gpu_in_the_processor_is_used_only_where_there_is_no_other() -> None:
    processor, inner, one, two = (
        device(name, kind) for name, kind in (("C", "cpu"), ("I", "igpu"), ("A", "gpu"), ("B", "gpu"))
    )
    assert gpus([processor, inner, one, two]) == [one, two]
    assert gpus([processor, inner]) == [inner] and gpus([processor]) == []


@pytest.mark.parametrize(
    ("kinds", "layers", "words"),
    [
        ((), None, "CPU"),
        (("gpu",), 0, "CPU"),
        (("gpu",), None, "Product 0, 33 of 33 layers"),
        (("gpu",), -1, "Product 0, 33 of 33 layers"),
        (("gpu", "gpu"), 99, "Product 0 and Product 1, 33 of 33 layers"),
        (("igpu",), 12, "Product 0, 12 of 33 layers"),
    ],
)
def test_where_a_model_runs_in_words(kinds: tuple[Kind, ...], layers: int | None, words: str) -> None:
    devices = [device(str(number), kind) for number, kind in enumerate(kinds)]
    assert device_words(devices, layers, 32) == words
