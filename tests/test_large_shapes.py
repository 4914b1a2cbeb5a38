"""Shapes so large that a GPU reads them with kernels that small ones never get: the same bits as
the CPU's, and as torch's where these are exact.
"""

from __future__ import annotations

import bisect

import pytest
import torch
from dtypes import name
from tensors import assert_same_bits

import torch_reduce

ops = torch.ops.gpureduce
f32, bf16, f16 = torch.float32, torch.bfloat16, torch.float16


def values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(shape[0])
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(-100, 100, shape, generator=generator, dtype=torch.int16).to(dtype)


def family(rows: int, width: int, dtype: torch.dtype, device: str) -> str:
    x = torch.empty((rows, width), dtype=dtype, device=device)
    return torch_reduce.explain("sum", x, 0).family


def least_thin_width(rows: int, dtype: torch.dtype, device: str) -> int:
    """Of a matrix of whole vectors, whose columns a thread each takes by itself."""
    slots = 16 // dtype.itemsize
    most = 2**22 // slots
    return slots * bisect.bisect_left(
        range(most), True, key=lambda n: family(rows, max(1, n) * slots, dtype, device) == "thin"
    )


@pytest.mark.parametrize("rows", [5, 8, 9, 31, 64, 65])
@pytest.mark.parametrize("dtype", [f32, bf16, f16, torch.int8, torch.bool], ids=name)
def test_columns_on_both_sides_of_the_thin_kernel(rows: int, dtype: torch.dtype, cuda: str) -> None:
    least = least_thin_width(rows, dtype, cuda)
    assert family(rows, least, dtype, cuda) == "thin"
    assert family(rows, least - 16 // dtype.itemsize, dtype, cuda) == "columns"
    for width in (least - 16 // dtype.itemsize, least, least + 1, least + 7):
        for offset in (0, 1):
            flat = values((rows * width + offset,), dtype)
            here = flat[offset:].view(rows, width)
            there = flat.to(cuda)[offset:].view(rows, width)
            assert_same_bits(ops.sum(there, [0]), ops.sum(here, [0]))
            assert_same_bits(ops.amax(there, [0]), ops.amax(here, [0]))
            if dtype != torch.bool:
                assert_same_bits(ops.argmax(there, 0), ops.argmax(here, 0))
            if dtype.is_floating_point:
                assert_same_bits(ops.var(there, [0]), ops.var(here, [0]))
                # The last elements of the matrix are the last ones of the memory that is read.
                cut = slice(None, width - 3)
                assert_same_bits(ops.sum(there[:, cut], [0]), ops.sum(here[:, cut], [0]))


@pytest.mark.parametrize("shape", [(2**18, 256), (2**20, 48), (300_001, 200), (777_777, 24)])
@pytest.mark.parametrize("dtype", [f32, bf16, torch.int8], ids=name)
def test_many_blocks_share_a_column(shape: tuple[int, int], dtype: torch.dtype, cuda: str) -> None:
    x = values(shape, dtype)
    there = x.to(cuda)
    want = ops.sum(x, [0])
    for _ in range(3):
        assert_same_bits(ops.sum(there, [0]), want)
    assert_same_bits(ops.argmax(there, 0), ops.argmax(x, 0))


@pytest.mark.parametrize("shape", [(1, 50_331_647), (3, 5_000_001), (85, 786_431), (1200, 40_001)])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, bf16], ids=name)
def test_long_rows_whose_order_is_free(
    shape: tuple[int, int], dtype: torch.dtype, cuda: str
) -> None:
    for offset in (0, 3):
        flat = values((shape[0] * shape[1] + offset,), dtype).to(cuda)
        x = flat[offset:].view(shape)
        assert_same_bits(ops.amax(x, [1]), x.amax(1))
        assert_same_bits(ops.count_nonzero(x, [1]), (x != 0).sum(1))
        found = ops.argmax(x, 1)
        assert_same_bits(x.gather(1, found[:, None])[:, 0], x.amax(1))
        before = torch.arange(shape[1], device=cuda) < found[:, None]
        assert not bool(((x == x.amax(1, keepdim=True)) & before).any()), "not the first one"
        if not dtype.is_floating_point:
            assert_same_bits(ops.sum(x, [1]), x.sum(1))
