"""Trains a small classifier of handwritten digits and watches it with gpureduce's operators.

    python examples/training.py [--device cpu|cuda] [--compile] [--epochs N]

What one wants to know of losses, activations and gradients is computed with gpureduce's operators,
which have no derivatives, under torch.no_grad(), and once more with torch; both are printed, and
the program fails if they differ by more than rounding. The digits are those inside scikit-learn:
nothing is downloaded.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import torch_reduce

NUM_TRAINING = 1500
BATCH = 125


class Metrics(NamedTuple):
    """What is watched, each a tensor of one element."""

    loss_mean: Tensor
    loss_max: Tensor
    logit_std: Tensor
    grad_norm: Tensor
    grad_max: Tensor
    grad_bad: Tensor
    accuracy: Tensor


Watch = Callable[[Tensor, Tensor, Tensor, Sequence[Tensor]], Metrics]


def metrics_gpureduce(
    losses: Tensor, logits: Tensor, labels: Tensor, grads: Sequence[Tensor]
) -> Metrics:
    of_losses = torch_reduce.stats(losses)
    of_grads = [torch_reduce.stats(grad) for grad in grads]
    largest = torch.stack([torch.maximum(-found.min, found.max) for found in of_grads])
    bad = torch.stack([found.num_nan + found.num_inf for found in of_grads])
    norms = torch.stack([torch_reduce.norm(grad) for grad in grads])
    right = torch_reduce.argmax(logits, 1) == labels
    return Metrics(
        loss_mean=of_losses.mean,
        loss_max=of_losses.max,
        logit_std=torch_reduce.std(logits),
        grad_norm=torch_reduce.norm(norms),
        grad_max=torch_reduce.amax(largest),
        grad_bad=torch_reduce.sum(bad),
        accuracy=torch_reduce.mean(right, dtype=torch.float32),
    )


def metrics_torch(
    losses: Tensor, logits: Tensor, labels: Tensor, grads: Sequence[Tensor]
) -> Metrics:
    norms = torch.stack([torch.linalg.vector_norm(grad) for grad in grads])
    return Metrics(
        loss_mean=losses.mean(),
        loss_max=losses.amax(),
        logit_std=logits.std(),
        grad_norm=torch.linalg.vector_norm(norms),
        grad_max=torch.stack([grad.abs().amax() for grad in grads]).amax(),
        grad_bad=torch.stack([grad.isfinite().logical_not().sum() for grad in grads]).sum(),
        accuracy=(logits.argmax(1) == labels).float().mean(),
    )


def load_digits(device: str) -> tuple[Tensor, Tensor]:
    """1797 images of 8 x 8 pixels in [0, 1], in random order, and their digits."""
    try:
        from sklearn import datasets
    except ImportError:
        raise SystemExit("training: the digits come with scikit-learn, which is missing") from None
    digits = datasets.load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    pixels = torch.from_numpy(digits.data).float()[order] / 16
    labels = torch.from_numpy(digits.target)[order].long()
    return pixels.to(device), labels.to(device)


def train_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, pixels: Tensor, labels: Tensor
) -> None:
    for batch in torch.randperm(len(labels)).split(BATCH):
        optimizer.zero_grad()
        F.cross_entropy(model(pixels[batch]), labels[batch]).backward()
        optimizer.step()


def watch(model: nn.Module, pixels: Tensor, labels: Tensor, metrics: Watch) -> tuple[Metrics, ...]:
    """The metrics of a full pass over the data, ours and torch's."""
    model.zero_grad()
    logits = model(pixels)
    losses = F.cross_entropy(logits, labels, reduction="none")
    losses.mean().backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    with torch.no_grad():
        ours = metrics(losses, logits, labels, grads)
        theirs = metrics_torch(losses, logits, labels, grads)
    torch.testing.assert_close(ours._asdict(), theirs._asdict())
    return ours, theirs


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--compile", action="store_true", help="the metrics inside torch.compile(fullgraph=True)"
    )
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    pixels, labels = load_digits(args.device)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    metrics: Watch = metrics_gpureduce
    if args.compile:
        metrics = torch.compile(metrics_gpureduce, fullgraph=True)

    print("epoch  data      who        " + "".join(f"{name:>12}" for name in Metrics._fields))
    start = time.perf_counter()
    data = {
        "training": (pixels[:NUM_TRAINING], labels[:NUM_TRAINING]),
        "test": (pixels[NUM_TRAINING:], labels[NUM_TRAINING:]),
    }
    for epoch in range(1, args.epochs + 1):
        train_epoch(model, optimizer, *data["training"])
        for name, part in data.items():
            results = watch(model, *part, metrics)
            for who, result in zip(("gpureduce", "torch"), results, strict=True):
                numbers = "".join(f"{value.item():12.6f}" for value in result)
                print(f"{epoch:5d}  {name:8s}  {who:9s}  {numbers}")
    how = " inside torch.compile" if args.compile else ""
    print(
        f"All numbers of gpureduce{how} agree with torch's. {args.epochs} epochs on {args.device} "
        f"in {time.perf_counter() - start:.1f} s."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
