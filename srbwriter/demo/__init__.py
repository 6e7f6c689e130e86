"""The path of the bundled model.

This package never imports an engine, a story or a face.
"""

from __future__ import annotations

import os
from pathlib import Path

BUNDLED_VARIABLE = "SRBWRITER_BUNDLED_MODEL"
"""Environment variable with the path of another file that takes the bundled model's place.

For packagers who install the model elsewhere, and for tests, which use a smaller one.
"""


def bundled_model() -> Path:
    """Return the path of the GGUF model that ships with the package."""
    return Path(os.environ.get(BUNDLED_VARIABLE) or Path(__file__).with_name("storyteller.gguf"))
