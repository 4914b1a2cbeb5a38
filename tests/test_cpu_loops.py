"""The CPU's own ways: its threads, and extremes found among the bits of rows of neighbours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
LENGTHS = (1, 2, 31, 33, 64, 129, 700, 5000)

COUNT_THREADS = """
import os
import torch
import torch_reduce
torch.set_num_threads(4)
x = torch.empty(64, 2**16)  # filling it would start the threads
before = len(os.listdir("/proc/self/task"))
torch.ops.gpureduce.sum(x, 1)
print(len(os.listdir("/proc/self/task")) - before)
"""


def test_a_large_input_is_shared_by_torchs_threads() -> None:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    }
    done = subprocess.run(
        [sys.executable, "-c", COUNT_THREADS], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 3


def negative_nan(dtype: torch.dtype) -> torch.Tensor:
    """A NaN with its sign bit set: as an integer it is below every number."""
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
    return torch.tensor(-1, dtype=integer).view(dtype)


def rows(kind: str, length: int, dtype: torch.dtype) -> torch.Tensor:
    """Three rows of which the second has, in its middle, what `kind` says."""
    x = -1 - torch.arange(3 * length, dtype=torch.float32).reshape(3, length) % 7
    if kind == "positive":
        x = -x
    x = x.to(dtype)
    if kind == "negative NaN":
        x[1, length // 2] = negative_nan(dtype)
    elif kind == "NaN":
        x[1, length // 2] = float("nan")
    elif kind == "-0 before +0":
        x[1, length // 2 :] = torch.zeros(length - length // 2).to(dtype)
        x[1, length // 2] = -0.0
    return x


@pytest.mark.parametrize("kind", ["negative", "positive", "negative NaN", "NaN", "-0 before +0"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_of_every_sign(kind: str, dtype: torch.dtype) -> None:
    for length in LENGTHS:
        x = rows(kind, length, dtype)
        wide = x.double()
        for find, largest in ((torch.ops.gpureduce.amax, True), (torch.ops.gpureduce.amin, False)):
            got = find(x, 1).double()
            want = wide.amax(1) if largest else wide.amin(1)
            assert torch.equal(got.nan_to_num(nan=1e9), want.nan_to_num(nan=1e9)), length
        for find, theirs in (
            (torch.ops.gpureduce.argmax, torch.argmax),
            (torch.ops.gpureduce.argmin, torch.argmin),
        ):
            for row in range(3):
                # Equal values have the same place in torch's answer by chance only: look it up.
                value = wide[row, theirs(wide[row])]
                same = wide[row].isnan() if value.isnan() else wide[row] == value
                assert find(x, 1)[row] == same.nonzero()[0, 0], (length, row)


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_of_two_zeros_the_positive_one_is_the_larger(length: int) -> None:
    x = torch.zeros(3, length)
    x[:, length // 2] = -0.0
    assert not torch.ops.gpureduce.amax(x, 1).signbit().any()
    assert torch.ops.gpureduce.amin(x, 1).signbit().all()
