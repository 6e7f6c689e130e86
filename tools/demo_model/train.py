"""Step 3: train, from nothing or from the weights of a GGUF model that is grown first.

Checkpoints let it be stopped and started at will; nothing depends on the clock. Writing a number of
steps into `WORK/finish` makes a run end early and properly: the learning rate goes to zero in so many
steps from now.

    python -m tools.demo_model.train --out WORK [--init-gguf FILE] [--layers N …]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.optim import Optimizer
from tqdm import tqdm

from tools.demo_model.data import Mixture, Packer, encode_register
from tools.demo_model.gguf_io import read_model
from tools.demo_model.growth import grow
from tools.demo_model.model import Config, Llama
from tools.demo_model.optim import Schedule, make_optimisers
from tools.demo_model.repeats import FILE, Repeats

#: Rows of samples in a step that unlearns repeats.
REPEATS_ROWS = 4


class Trainer:
    """A model, its optimisers and its data; everything that a checkpoint must hold."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.out: Path = args.out
        self.device = torch.device(args.device)
        torch.manual_seed(args.seed)
        self.tokenizer: Tokenizer = Tokenizer.from_file(str(self.out / "tokenizer.json"))
        self.model = build_model(args, self.tokenizer.get_vocab_size()).to(self.device)
        self.optimisers = make_optimisers(self.model, args.muon_lr, args.adam_lr, args.weight_decay)
        self.peaks = [group["lr"] for o in self.optimisers for group in o.param_groups]
        self.schedule = Schedule(args.steps, args.warmup, round(args.steps * args.constant))
        text = self.out / "text"
        self.short = Mixture(text, self.tokenizer, args.block, args.seed)
        self.long = Mixture(text, self.tokenizer, args.context, args.seed) if args.long_every else None
        self.repeats = (
            Repeats(self.out / FILE, self.tokenizer, args.block, args.seed) if args.repeats else None
        )
        self.unlearned = 0.0
        self.step = 0
        self.log = self.out / "log.jsonl"

    @property
    def checkpoint(self) -> Path:
        return self.out / "checkpoint.pt"

    def save(self) -> None:
        state = {
            "config": self.model.config.to_dict(),
            "model": self.model.state_dict(),
            "optimisers": [o.state_dict() for o in self.optimisers],
            "schedule": asdict(self.schedule),
            "data": [m.state for m in self.mixtures()],
            "step": self.step,
        }
        save_whole(state, self.checkpoint)

    def keep(self) -> None:
        """Put the weights of this step aside, for `average`."""
        folder = self.out / "kept"
        folder.mkdir(exist_ok=True)
        state = {"config": self.model.config.to_dict(), "model": self.model.state_dict()}
        save_whole(state, folder / f"{self.step:06}.pt")

    def resume(self) -> None:
        """Take up the checkpoint of the working folder, if there is one."""
        if not self.checkpoint.exists():
            return
        state = torch.load(self.checkpoint, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.schedule = Schedule(**state["schedule"])
        for mixture, saved in zip(self.mixtures(), state["data"], strict=True):
            mixture.restore(saved)
        self.step = state["step"]

    def mixtures(self) -> list[Mixture]:
        return [self.short] if self.long is None else [self.short, self.long]

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16)

    def batch(self) -> tuple[Tensor, Tensor]:
        """This step's blocks: mostly short ones, every `--long-every`-th time full-length ones."""
        mixture = self.short
        if self.long is not None and self.step % self.args.long_every == self.args.long_every - 1:
            mixture = self.long
        inputs, targets = mixture.batch(self.step, max(1, self.args.tokens // mixture.length))
        return torch.from_numpy(inputs).to(self.device), torch.from_numpy(targets).to(self.device)

    def heed_finish(self) -> None:
        """Shorten the run if a file requests it."""
        flag = self.out / "finish"
        if not flag.exists():
            return
        wanted = flag.read_text().strip()
        flag.unlink()
        if wanted.isdigit() and int(wanted) > 0:
            self.schedule.finish_in(self.step, int(wanted))
        else:
            tqdm.write(f"{flag} must hold a number of steps, not {wanted!r}")

    def train_step(self) -> float:
        factor = self.schedule.factor(self.step)
        groups = [group for o in self.optimisers for group in o.param_groups]
        for group, peak in zip(groups, self.peaks, strict=True):
            group["lr"] = peak * factor
        inputs, targets = self.batch()
        rows = max(1, self.args.micro_tokens // inputs.shape[1])
        total = 0.0
        for part, wanted in zip(inputs.split(rows), targets.split(rows), strict=True):
            with self.autocast():
                loss = self.model.loss(part, wanted) * (len(part) / len(inputs))
            loss.backward()
            total += loss.item()
        self.unlearned = self.unlearn_repeats()
        clip(self.optimisers)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.step += 1
        return total

    def unlearn_repeats(self) -> float:
        """Add to the gradient that of a few samples in which the model repeated itself; their loss."""
        if self.repeats is None:
            return 0.0
        inputs, targets = self.repeats.batch(self.step, REPEATS_ROWS)
        with self.autocast():
            loss = self.model.unlikelihood(
                torch.from_numpy(inputs).to(self.device), torch.from_numpy(targets).to(self.device)
            )
        (self.args.repeats * loss).backward()
        return loss.item()

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Nats per token on the documents kept aside, for each register that has some."""
        result: dict[str, float] = {}
        self.model.eval()
        for path in sorted((self.out / "text").glob("*-dev.txt")):
            packer = Packer(
                [encode_register(path, self.tokenizer)], self.tokenizer, self.args.block, 0, plain=True
            )
            blocks = torch.from_numpy(packer.blocks.astype(np.int64)).to(self.device)
            rows = min(len(blocks), max(1, self.args.micro_tokens // self.args.block))
            losses: list[float] = []
            # Whole batches only: another shape would be compiled again.
            for part in blocks[: len(blocks) // rows * rows].split(rows):
                with self.autocast():
                    losses.append(self.model.loss(part[:, :-1].clamp(min=0), part[:, 1:]).item())
            result[path.stem] = sum(losses) / len(losses)
        self.model.train()
        return result

    def note(self, **facts: float) -> None:
        with self.log.open("a") as stream:
            stream.write(json.dumps({"step": self.step, "time": round(time.time()), **facts}) + "\n")

    def run(self) -> None:
        """Train to the end of the schedule."""
        self.resume()
        if self.args.compile:
            self.model.compile_parts()
        saved, recent = time.monotonic(), []
        bar = tqdm(total=self.schedule.total, initial=self.step, unit="step", smoothing=0.05)
        while self.step < self.schedule.total:
            self.heed_finish()
            bar.total = self.schedule.total
            loss = self.train_step()
            if not math.isfinite(loss):
                raise FloatingPointError(f"the loss is {loss} at step {self.step}: lower the learning rates")
            recent.append(loss)
            bar.update()
            if self.step % 20 == 0:
                mean, recent = sum(recent) / len(recent), []
                bar.set_postfix(loss=f"{mean:.3f}", lr=f"{self.schedule.factor(self.step):.2f}")
                self.note(loss=mean, lr=self.schedule.factor(self.step), repeats=self.unlearned)
            if self.args.keep_every and self.step % self.args.keep_every == 0:
                self.keep()
            if self.step % self.args.eval_every == 0 or self.step == self.schedule.total:
                self.note(**self.evaluate())
            if time.monotonic() - saved > self.args.save_seconds or self.step == self.schedule.total:
                self.save()
                saved = time.monotonic()
        bar.close()


def save_whole(state: dict[str, object], path: Path) -> None:
    """Write a file that is there whole or not at all."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def clip(optimisers: list[Optimizer]) -> None:
    """Bound the gradient of what AdamW trains; Muon's update has a fixed size anyway."""
    for group in optimisers[-1].param_groups:
        torch.nn.utils.clip_grad_norm_(group["params"], 1.0)


def build_model(args: argparse.Namespace, vocab: int) -> Llama:
    """Return a new model of the given shape, or the given model grown to it."""
    config = Config(
        vocab=vocab,
        width=args.width,
        layers=args.layers,
        heads=args.heads,
        hidden=args.hidden,
        context=args.context,
        theta=args.theta,
        tied=args.tied,
        head_size=args.head_size,
    )
    if args.init_gguf:
        return grow(read_model(args.init_gguf), config, args.dropout)
    return Llama(config, args.dropout)


def parser() -> argparse.ArgumentParser:
    """The options of a run; the defaults are the CPU recipe of README.md."""
    p = argparse.ArgumentParser(description="Train the story model.")
    p.add_argument("--out", type=Path, required=True, help="working folder with text/ and tokenizer.json")
    p.add_argument("--init-gguf", type=Path, help="start from this model, grown to the shape below")
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--head-size", type=int, default=0, help="0: width / heads")
    p.add_argument("--hidden", type=int, default=704)
    p.add_argument("--theta", type=float, default=10_000.0, help="rotary base")
    p.add_argument("--tied", action="store_true", help="one matrix for embedding and head")
    p.add_argument("--context", type=int, default=2048, help="tokens; the length of long blocks")
    p.add_argument("--block", type=int, default=512, help="tokens; the length of short blocks")
    p.add_argument("--long-every", type=int, default=10, help="every n-th step uses long blocks; 0: none")
    p.add_argument("--tokens", type=int, default=8192, help="tokens of a step")
    p.add_argument("--micro-tokens", type=int, default=8192, help="tokens of a forward pass")
    p.add_argument("--steps", type=int, default=3000)
    p.add_argument("--warmup", type=int, default=60, help="steps")
    p.add_argument("--constant", type=float, default=0.5, help="share of the steps before the rate falls")
    p.add_argument("--muon-lr", type=float, default=0.015)
    p.add_argument("--adam-lr", type=float, default=0.0015)
    p.add_argument("--weight-decay", type=float, default=0.02)
    p.add_argument("--dropout", type=float, default=0.0, help="of what each half of a layer adds")
    p.add_argument("--repeats", type=float, default=0.0, help="weight of unlearning what `repeats` found")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--eval-every", type=int, default=250, help="steps")
    p.add_argument("--keep-every", type=int, default=0, help="steps; for `average`; 0: none are kept")
    p.add_argument("--save-seconds", type=float, default=180)
    return p


def main() -> None:
    torch.set_float32_matmul_precision("high")
    trainer = Trainer(parser().parse_args())
    print(f"{trainer.model.count():,} parameters on {trainer.device}")
    trainer.run()


if __name__ == "__main__":
    main()
