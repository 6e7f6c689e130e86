"""Step 3: fine-tune the whole base on fiction, take layers out, and heal what is left.

The fine-tuned whole is the teacher of what is left: half of the loss is cross-entropy, half the divergence
from the teacher's distribution (Hinton et al. 2015, arXiv:1503.02531). In the second half of healing the
network computes with matrices rounded to Q4_0, so that it learns to live with what the file will hold.

    python -m tools.demo_model.train BASE.gguf --out WORK [--steps 572 1552] [--layers 18] [--batch 64]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tools.demo_model import rows as row_files
from tools.demo_model.network import Network, read_model
from tools.demo_model.vocabulary import Vocabulary

FILE = "small.pt"
WHOLE_RATE, HEALING_RATE, WARM_UP = 6e-4, 1.1e-3, 20
TEACHER_SHARE = 0.5
CHOOSING_ROWS = 24
Batches = Iterator[tuple[Tensor, Tensor]]


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return nats per token."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def distil(logits: Tensor, teacher: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of cross-entropy and divergence from the teacher, in nats per token."""
    ours, theirs = logits.flatten(0, 1).log_softmax(-1), teacher.flatten(0, 1).log_softmax(-1)
    divergence = (theirs.exp() * (theirs - ours)).sum(-1).mean()
    return (1 - TEACHER_SHARE) * F.nll_loss(ours, targets.flatten()) + TEACHER_SHARE * divergence


def falling_rate(peak: float, constant: float, floor: float) -> Callable[[float], float]:
    """Return the rate at a share of the steps: the peak up to `constant`, then down to `floor` of it."""
    return lambda share: peak * max(floor, 1 - max(0.0, share - constant) / (1 - constant))


class Trainer:
    """Feeds rows to networks, one after another, and logs what they lose."""

    def __init__(self, out: Path, batch: int, device: str) -> None:
        self.out, self.device, self.batch = out, device, batch
        self.rows = np.load(out / row_files.FILE)
        self.batches = self.read_batches()

    def read_batches(self) -> Batches:
        """Yield inputs and targets without end."""
        while True:
            for begin in range(0, len(self.rows) - self.batch + 1, self.batch):
                ids = torch.from_numpy(self.rows[begin : begin + self.batch].astype(np.int64)).to(self.device)
                yield ids[:, :-1], ids[:, 1:].contiguous()

    def note(self, **facts: object) -> None:
        with (self.out / "log.jsonl").open("a") as stream:
            stream.write(json.dumps({"time": round(time.time()), **facts}) + "\n")

    def train(
        self,
        name: str,
        network: Network,
        steps: int,
        rate: Callable[[float], float],
        loss_of: Callable[[Tensor, Tensor], Tensor],
        round_from: int | None = None,
    ) -> None:
        """Take `steps` steps; from `round_from` on, matrices are rounded to Q4_0 in the forward pass."""
        optimizer, losses = network.make_optimizer(), list[Tensor]()
        for step in range(steps):
            if step == round_from:
                network.quantised = True
                network.renew_copies()
            loss = loss_of(*next(self.batches))
            loss.backward()
            network.step(optimizer, rate(step / steps) * min(1.0, (step + 1) / WARM_UP))
            losses.append(loss.detach())
            if (step + 1) % 50 == 0 or step + 1 == steps:
                mean = torch.stack(losses).mean().item()
                if not math.isfinite(mean):
                    raise FloatingPointError(f"{name}: the loss is {mean} at step {step + 1}")
                self.note(stage=name, step=step + 1, loss=mean)
                print(f"{name} {step + 1} of {steps}: {mean:.4f}", flush=True)
                losses.clear()

    @torch.no_grad()
    def choose_layers(self, network: Network, count: int) -> list[int]:
        """Take out one layer after another, always the one without which the loss is least; return the rest.

        The first and the last stay.
        """
        ids = torch.from_numpy(self.rows[-CHOOSING_ROWS:].astype(np.int64)).to(self.device)
        kept = list(range(len(network.layers)))

        def loss_without(place: int, before: Tensor) -> float:
            x = network.run_layers(before, kept[place + 1 :])
            parts = zip(x.split(8), ids[:, 1:].split(8), strict=True)
            return sum(cross_entropy(network.logits(a), b).item() * len(a) for a, b in parts)

        while len(kept) > count:
            befores = [network.embed(ids[:, :-1])]
            for layer in kept[:-1]:
                befores.append(network.run_layers(befores[-1], [layer]))
            kept.pop(min(range(1, len(kept) - 1), key=lambda place: loss_without(place, befores[place])))
        self.note(kept=kept)
        return kept


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description="Train the story model from a larger one.")
    p.add_argument("base", type=Path, help="GGUF file of the base model")
    p.add_argument("--out", type=Path, required=True, help="working folder, with vocabulary and rows")
    p.add_argument("--steps", type=int, nargs=2, default=(572, 1552), help="of the whole, and of healing")
    p.add_argument("--layers", type=int, default=18, help="how many stay (default %(default)s)")
    p.add_argument("--batch", type=int, default=64, help="rows of a step (default %(default)s)")
    p.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    return p


def run(args: argparse.Namespace) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shape, weights = read_model(args.base, Vocabulary.load(args.out).rows)
    trainer = Trainer(args.out, args.batch, device)

    def prepare(network: Network) -> Network:
        if args.compile:
            network.run_layer = torch.compile(network.run_layer, dynamic=False)
        return network

    whole = prepare(Network(shape, weights, range(shape.layers), device))
    del weights

    def fine_tune(inputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(whole.logits(whole.hidden(inputs)), targets)

    trainer.train("whole", whole, args.steps[0], falling_rate(WHOLE_RATE, 0.4, 0.1), fine_tune)
    small = prepare(Network(shape, whole.weights(), trainer.choose_layers(whole, args.layers), device))

    def heal(inputs: Tensor, targets: Tensor) -> Tensor:
        with torch.no_grad():
            teacher = whole.logits(whole.hidden(inputs))
        return distil(small.logits(small.hidden(inputs)), teacher, targets)

    rate, steps = falling_rate(HEALING_RATE, 0.3, 0.01), args.steps[1]
    trainer.train("healing", small, steps, rate, heal, round_from=steps // 2)
    torch.save({name: weight.cpu() for name, weight in small.weights().items()}, args.out / FILE)


if __name__ == "__main__":
    run(parser().parse_args())
