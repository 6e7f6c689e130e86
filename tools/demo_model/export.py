"""Step 4: write the trained checkpoint as a float16 GGUF file with everything a program asks it for.

python -m tools.demo_model.export --out WORK --file MODEL.gguf
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer

from tools.demo_model.gguf_io import write_model
from tools.demo_model.model import Config, Llama

GENERAL = {
    "type": "model",
    "name": "storyteller",
    "author": "srbwriter contributors",
    "version": "1",
    "license": "mit",
    "description": "A very small English model of simple stories and old tales that ships with srbwriter.",
}


def load_checkpoint(path: Path) -> Llama:
    """The model of a checkpoint; raises FileNotFoundError where training has not written one."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    model = Llama(Config(**state["config"]))
    model.load_state_dict(state["model"])
    return model


def write(file: Path, model: Llama, out: Path) -> None:
    """Write `model` with the vocabulary of the working folder `out`, and say how large it is."""
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    write_model(file, model, tokenizer, GENERAL | {"size_label": f"{model.count() / 1e6:.1f}M"})
    print(f"{file}: {model.count():,} parameters, {file.stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a checkpoint as float16 GGUF.")
    parser.add_argument("--out", type=Path, required=True, help="working folder")
    parser.add_argument("--file", type=Path, required=True, help="GGUF file to write")
    args = parser.parse_args()
    write(args.file, load_checkpoint(args.out / "checkpoint.pt"), args.out)


if __name__ == "__main__":
    main()
