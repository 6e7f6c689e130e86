"""Prints as JSON what llama.cpp says of itself: ``python -m srbwriter.engine.probe``.

Run as a process of its own, so that a driver that hangs, or a build for another processor, ends that only.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from .types import LibraryError


def look() -> dict[str, Any]:
    """Return the build and the devices of llama.cpp, or under ``error`` why it cannot be loaded."""
    try:
        from .native.amx import weights_may_be_repacked
        from .native.devices import read_build, read_devices
    except LibraryError as error:
        return {"error": str(error)}
    devices = [asdict(device) for device in read_devices()]
    return {
        "build": asdict(read_build()), "devices": devices, "amx_broken": not weights_may_be_repacked()
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(look()))
