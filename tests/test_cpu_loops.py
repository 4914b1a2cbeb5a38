"""The CPU's own ways: its threads, extremes found among the bits of rows of neighbours, sums whose
lanes have no place in memory, floats summed as integers, conversions in vectors.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from numpy_walk import expected

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


@pytest.mark.parametrize("dtype", [torch.float64, *DTYPES[:3]])
def test_a_sum_of_negative_zeros_is_positive(dtype: torch.dtype) -> None:
    for shape in ((3, 200), (3, 5000), (3, 70000), (200, 40), (5000, 33), (3, 40)):
        x = torch.full(shape, -0.0, dtype=dtype)
        for dim in (0, 1, None):
            assert not torch.ops.gpureduce.sum(x, dim).signbit().any(), (shape, dim)


def test_every_float16_is_widened_to_its_value() -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.float16)
    want = every.float()
    x = torch.zeros(2**16, 600, dtype=torch.float16)
    x[:, 431] = every
    for rows in (x, x[:, 400:], x[:, 431:434], x[:, 420:440].contiguous()):
        for matrix, dim in ((rows, 1), (rows.t(), 0), (rows.t().contiguous(), 0)):
            got = torch.ops.gpureduce.sum(matrix, dim, dtype=torch.float32)
            assert torch.equal(got.nan_to_num(1e9), want.nan_to_num(1e9)), rows.shape


def extreme_bytes(kind: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype) if kind == "ends" else torch.rand(shape) < 0.5
    info = torch.iinfo(dtype)
    if kind == "ends":
        return torch.full(shape, info.max if info.min == 0 else info.min, dtype=dtype)
    return torch.randint(info.min, info.max + 1, shape, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.bool])
@pytest.mark.parametrize("to", [torch.float32, torch.float64, torch.bfloat16])
def test_sums_of_bytes_in_floats_have_the_bits_of_the_walk(
    to: torch.dtype, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    shapes = ((7, 300), (3, 40000), (300, 65), (40000, 3), (9, 3), (2, 9_000_001))
    for kind in ("ends", "random"):
        for shape in shapes:
            x = extreme_bytes(kind, shape, dtype)
            for dim in (0, 1):
                for op in ("sum", "mean"):
                    got = getattr(torch.ops.gpureduce, op)(x, dim, dtype=to)
                    assert torch.equal(got, expected(op, x, dim, dtype=to)), (kind, shape, dim, op)


def test_a_sum_of_bytes_that_passes_the_floats_integers_is_walked() -> None:
    torch.manual_seed(0)
    x = torch.randint(200, 256, (2**26 + 60000,), dtype=torch.uint8)
    got = torch.ops.gpureduce.sum(x, dtype=torch.float32)
    assert torch.equal(got, expected("sum", x, None, dtype=torch.float32))


@pytest.mark.parametrize("to", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "dtype", [torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]
)
def test_integers_of_every_size_are_converted_as_torch_does(
    to: torch.dtype, dtype: torch.dtype
) -> None:
    info = torch.iinfo(dtype)
    ends = [2**k + d for k in (0, 15, 16, 24, 25, 31, 32, 53, 54, 63) for d in (-2, -1, 0, 1, 3)]
    values = [v for end in ends for v in (end, -end) if info.min <= v <= info.max]
    values = [*range(100), *values, *range(100)]
    x = torch.zeros(len(values), 40, dtype=dtype)
    x[:, 7] = torch.tensor(values, dtype=dtype)
    want = x[:, 7].to(to)
    for matrix, dim in ((x, 1), (x.t().contiguous(), 0), (x[:, 7:8], 1)):
        assert torch.equal(torch.ops.gpureduce.sum(matrix, dim, dtype=to), want)
