"""The rungs of the ladder: right for every length and real dtype."""

from __future__ import annotations

import math

import dtypes
import pytest
import torch
from tensors import assert_same_bits, generator

import torch_reduce  # noqa: F401

RUNGS = ["serial", "v1", "v2", "v3_warp", "v3", "sum"]
PARALLEL = RUNGS[1:]
ON_CPU = ["serial", "sum"]
# Around a warp, a block, two blocks' elements, two passes, and nothing at all.
LENGTHS = [0, 1, 2, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 4097, 100_003]

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: there is none")
PLACES = [
    *(pytest.param("cpu", rung, id=f"cpu-{rung}") for rung in ON_CPU),
    *(pytest.param("cuda", rung, id=f"cuda-{rung}", marks=NEEDS_GPU) for rung in RUNGS),
]

sum_rung = torch.ops.gpureduce.sum_rung


def small_integers(length: int, dtype: torch.dtype) -> torch.Tensor:
    """Values that every accumulator adds exactly, in whatever order."""
    low = 0 if dtype in (*dtypes.UNSIGNED, torch.bool) else -2
    drawn = generator("ladder", length, dtype).integers(
        low, 2 if dtype == torch.bool else 4, length
    )
    values = torch.from_numpy(drawn)
    return values.to(torch.float32).to(dtype) if dtype in dtypes.FLOATS else values.to(dtype)


def exact_sum(x: torch.Tensor) -> torch.Tensor:
    if x.dtype in dtypes.FLOATS:
        return x.to(torch.float64).sum().to(torch.float32).to(x.dtype)
    return x.to(torch.int64).sum()


@pytest.mark.parametrize("dtype", dtypes.REAL, ids=dtypes.name)
@pytest.mark.parametrize(("device", "rung"), PLACES)
def test_exact_sums(device: str, rung: str, dtype: torch.dtype) -> None:
    for length in LENGTHS:
        x = small_integers(length, dtype)
        assert_same_bits(sum_rung(x.to(device), rung), exact_sum(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=dtypes.name)
@pytest.mark.parametrize(("device", "rung"), PLACES)
def test_random_sums(device: str, rung: str, dtype: torch.dtype) -> None:
    # In float64 the reference is as exact as the sum: it gets the bound twice.
    unit = 2.0**-53 if dtype == torch.float64 else 2.0**-24
    for length in LENGTHS[1:]:
        x = torch.from_numpy(generator("random", length).standard_normal(length)).to(dtype)
        wide = x.to(torch.float64)
        bound = 2 * length * unit * float(wide.abs().sum())
        got = sum_rung(x.to(device), rung)
        low, high = ((wide.sum() + b).to(dtype) for b in (-bound, bound))
        assert got.dtype == dtype
        assert low <= got.cpu() <= high, (length, got, wide.sum(), bound)


@pytest.mark.parametrize(("device", "rung"), PLACES)
def test_accumulates_wider_than_the_elements(device: str, rung: str) -> None:
    half = torch.tensor([32000.0] * 4 + [-32000.0] * 4, dtype=torch.float16, device=device)
    assert sum_rung(half, rung).item() == 0
    ones = torch.ones(4096, dtype=torch.bfloat16, device=device)
    assert sum_rung(ones, rung).item() == 4096
    small = torch.full((1000,), 127, dtype=torch.int8, device=device)
    assert_same_bits(sum_rung(small, rung), torch.tensor(127_000))


@pytest.mark.parametrize(("device", "rung"), PLACES)
def test_integers_wrap(device: str, rung: str) -> None:
    largest = torch.iinfo(torch.int64).max
    x = torch.tensor([largest, 1, 5], device=device)
    assert sum_rung(x, rung).item() == -largest - 1 + 5
    high = torch.tensor([2**63, 2**63, 7], dtype=torch.uint64, device=device)
    assert sum_rung(high, rung).item() == 7


@pytest.mark.parametrize(("device", "rung"), PLACES)
def test_special_values(device: str, rung: str) -> None:
    inf, nan = float("inf"), float("nan")
    for values, want in (
        ([-0.0], 0.0),
        ([-0.0] * 700, 0.0),
        ([1.0, inf], inf),
        ([inf, -inf], nan),
        ([0.0] * 600 + [nan], nan),
    ):
        got = sum_rung(torch.tensor(values, device=device), rung)
        if math.isnan(want):
            assert got.isnan(), "any NaN: which one is the hardware's choice"
        else:
            assert_same_bits(got, torch.tensor(want))


@pytest.mark.parametrize(("device", "rung"), PLACES)
def test_any_shape_and_strides(device: str, rung: str) -> None:
    base = small_integers(60_000, torch.float32).to(device).view(200, 300)
    for view in (base, base.t(), base[1:, 3:], base[::3, ::7], base[0, 0], base[:, :0]):
        assert_same_bits(sum_rung(view, rung), view.sum())


@pytest.mark.parametrize("rung", PARALLEL)
def test_one_value_is_left_however_many_passes_it_takes(cuda: str, rung: str) -> None:
    ones = torch.ones(3 * 2**24 + 12_345, device=cuda, dtype=torch.int8)
    assert sum_rung(ones, rung).item() == ones.numel()


@pytest.mark.big_memory(6)
@pytest.mark.parametrize("rung", PARALLEL)
def test_more_elements_than_32_bits_count(cuda: str, rung: str) -> None:
    ones = torch.ones(2**32 + 777, device=cuda, dtype=torch.int8)
    assert sum_rung(ones, rung).item() == ones.numel()


@pytest.mark.parametrize("rung", PARALLEL)
def test_in_a_graph(cuda: str, rung: str) -> None:
    x = torch.ones(1_000_003, device=cuda)
    sum_rung(x, rung)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = sum_rung(x, rung)
    for value in (1, 2, -1):
        x.fill_(value)
        graph.replay()
        assert result.item() == value * x.numel()


def test_an_unknown_rung_is_refused_with_the_names_of_all(device: str) -> None:
    with pytest.raises((ValueError, RuntimeError)) as error:
        sum_rung(torch.ones(3, device=device), "v4")
    assert "v4" in str(error.value)
    for rung in RUNGS:
        assert rung in str(error.value)


@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung not in ON_CPU])
def test_kernels_refuse_a_cpu_tensor(rung: str) -> None:
    with pytest.raises((ValueError, RuntimeError), match=rung):
        sum_rung(torch.ones(3), rung)


@pytest.mark.parametrize(("device", "rung"), PLACES)
def test_complex_is_refused(device: str, rung: str) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError), match=r"(?i)complex"):
        sum_rung(torch.ones(3, dtype=torch.complex64, device=device), rung)
