"""gpureduce beside torch on the tensors in a file: `python -m benchmarks.bench --tensor FILE`.

The file is memory-mapped: nothing is read before it is used.
"""

from __future__ import annotations

import functools
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks import cases, report, timing, values
from benchmarks.cases import OURS, TORCH
from benchmarks.timing import Budget, compare_times


class NoTensorError(Exception):
    """The file holds no tensor; the message is one sentence."""


def _flattened(value: object, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in nested dicts, lists and tuples, with names like those of a state dict."""
    if isinstance(value, torch.Tensor):
        if value.layout == torch.strided and not value.is_quantized and not value.is_nested:
            yield name or "tensor", value.detach()
        return
    items: Iterator[tuple[object, object]] = iter(())
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list | tuple):
        items = iter(enumerate(value))
    for key, item in items:
        yield from _flattened(item, f"{name}.{key}" if name else str(key))


def _load_pt(path: Path) -> dict[str, torch.Tensor]:
    # Only the zip format, which torch.save has written since torch 1.6, can be mapped.
    mapped = zipfile.is_zipfile(path)
    try:
        data = torch.load(path, map_location="cpu", mmap=mapped, weights_only=True)
    except Exception as error:
        if mapped:
            raise
        raise ValueError("it is not a file that torch.save wrote") from error
    return dict(_flattened(data, ""))


def _load_npy(path: Path) -> dict[str, torch.Tensor]:
    # Copy on write: torch wants memory that it might write to.
    array = np.load(path, mmap_mode="c", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise ValueError("it is an archive of several arrays")
    return {path.stem: torch.from_numpy(array)}


def _load_safetensors(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118


LOADERS = {
    ".pt": _load_pt,
    ".pth": _load_pt,
    ".npy": _load_npy,
    ".safetensors": _load_safetensors,
}


def load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors in a .pt, .npy or .safetensors file, by name."""
    if not path.is_file():
        raise NoTensorError(f"there is no file {path}")
    loader = LOADERS.get(path.suffix.lower())
    if loader is None:
        raise NoTensorError(f"{path} is not a {', '.join(LOADERS)} file")
    try:
        tensors = loader(path)
    except ImportError as error:
        raise NoTensorError(f"{path} cannot be read: {error}") from error
    except Exception as error:  # each format fails in its own ways, all mean the same here
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise NoTensorError(f"{path} holds no tensor: {lines[0][:200]}") from error
    if not tensors:
        raise NoTensorError(f"{path} holds no tensor that can be reduced")
    return tensors


HEADER = [
    "tensor",
    "op",
    "gpureduce",
    "torch",
    "float64 reference",
    "our error",
    "torch's error",
    "ours µs",
    "torch µs",
    "",
]


def value_text(result: torch.Tensor | None) -> str:
    if result is None:
        return "–"
    value = result.item()
    if isinstance(value, complex):
        return f"{value.real:.9g}{value.imag:+.9g}j"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def tensor_row(name: str, op: str, x: torch.Tensor, budget: Budget) -> tuple[list[str], bool]:
    """The row of one op on one tensor, and whether the value is right."""
    results: dict[str, torch.Tensor] = {}
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {}
    for who, make in ((OURS, cases.ours), (TORCH, cases.theirs)):
        function = make(op, x.dtype)
        try:
            results[who] = function(x)
        except (RuntimeError, TypeError, IndexError, ValueError):
            continue
        functions[who] = function
    if OURS not in results:
        return [name, op, *["–"] * (len(HEADER) - 2)], TORCH not in results
    expected = values.reference(op, x)
    depth = values.order_depth(x.numel(), x.element_size())
    bound = values.rounding_bound(op, x, x.numel(), depth, expected, worst_case=True)
    verdicts = {who: values.compare(result, expected, bound) for who, result in results.items()}
    samplers = {
        who: timing.device_sampler([functools.partial(function, x)], x.device.type)
        for who, function in functions.items()
    }
    times = timing.interleave(samplers, budget)
    row = [name, op, value_text(results[OURS]), value_text(results.get(TORCH))]
    row.append(value_text(expected.to(x.dtype) if op == "amax" else expected))
    row += [f"{verdicts[who].error:.2g}" if who in verdicts else "–" for who in (OURS, TORCH)]
    row += [report.number(times[who].median_us) if who in times else "–" for who in (OURS, TORCH)]
    wrong = verdicts[OURS].wrong
    if wrong:
        row.append("WRONG")
    else:
        row.append(compare_times(times[OURS], times[TORCH]) if TORCH in times else "torch cannot")
    return row, not wrong


def run(path: Path, device: str, select: str, budget: Budget) -> int:
    try:
        tensors = load_tensors(path)
    except NoTensorError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    chosen = {name: x for name, x in tensors.items() if re.search(select, name)}
    if not chosen:
        print(f"bench: no tensor in {path} has a name like {select!r}", file=sys.stderr)
        return 2
    print(report.describe(report.environment(device)))
    rows, right = [], True
    for name, x in report.progress(list(chosen.items()), "tensors"):
        on_device = x.to(device)
        label = f"{name} {tuple(x.shape)} {cases.dtype_name(x.dtype)}"
        for op in cases.OPS:
            row, fine = tensor_row(label, op, on_device, budget)
            rows.append(row)
            right &= fine
    print(report.text_table(HEADER, rows))
    if not right:
        print("bench: a value is wrong, see above", file=sys.stderr)
    return 0 if right else 1
