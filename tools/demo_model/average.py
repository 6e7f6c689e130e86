"""Between steps 4 and 5: one model whose weights are the mean of several that began as the same one.

Training leaves weights scattered about a good place; their mean is nearer to it (Izmailov et al. 2018,
arXiv:1803.05407), also when they come from different runs (Wortsman et al. 2022, arXiv:2203.05482).

    python -m tools.demo_model.average MODEL.gguf WORK/kept/*.pt OLD.gguf --shares 1 1 1 7 --out WORK
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from tools.demo_model.export import load_checkpoint, write
from tools.demo_model.gguf_io import read_model
from tools.demo_model.model import Llama


def load(path: Path) -> Llama:
    """The model of a GGUF file or of a checkpoint."""
    return read_model(path) if path.suffix == ".gguf" else load_checkpoint(path)


@torch.no_grad()
def mean_model(paths: Sequence[Path], shares: Sequence[float]) -> Llama:
    """The weighted mean of the models at `paths`, read one after the other.

    Raises ValueError where there are not as many shares as models, or where two models differ in shape.
    """
    if len(shares) != len(paths) or not sum(shares):
        raise ValueError(f"{len(paths)} models need as many shares, not all 0; there are {len(shares)}")
    mean = load(paths[0])
    sums = {name: weight * (shares[0] / sum(shares)) for name, weight in mean.state_dict().items()}
    for path, share in zip(paths[1:], shares[1:], strict=True):
        model = load(path)
        if replace(model.config, eps=mean.config.eps) != mean.config:  # GGUF has it in single precision
            raise ValueError(f"{path} has another shape than {paths[0]}")
        for name, weight in model.state_dict().items():
            sums[name] += weight * (share / sum(shares))
    mean.load_state_dict(sums)
    return mean


@torch.no_grad()
def calibrate(model: Llama, temperature: float) -> None:
    """Divide the logits by `temperature`, above 1 for a model that is too sure.

    Guo et al. 2017, arXiv:1706.04599.
    """
    model.norm.weight.div_(temperature)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the mean of several models as float16 GGUF.")
    parser.add_argument("file", type=Path, help="GGUF file to write")
    parser.add_argument("models", type=Path, nargs="+", help="GGUF files and checkpoints")
    parser.add_argument("--shares", type=float, nargs="+", help="one for each model; all alike by default")
    parser.add_argument("--temperature", type=float, default=1.0, help="divides the logits for good")
    parser.add_argument("--out", type=Path, required=True, help="working folder with tokenizer.json")
    args = parser.parse_args()
    model = mean_model(args.models, args.shares or [1.0] * len(args.models))
    calibrate(model, args.temperature)
    write(args.file, model, args.out)


if __name__ == "__main__":
    main()
