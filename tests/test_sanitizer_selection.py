"""A few calls of each kernel family, for compute-sanitizer: odd sizes, so that every edge of a
tile, a vector and a leaf is crossed, and nothing large, since the tools slow a kernel down a
hundredfold.
"""

from __future__ import annotations

import pytest
import torch
from dtypes import LIST_OPS, OPS, is_inexact, name
from tensors import generator, some_numbers

ops = torch.ops.gpureduce

f32, f64, bf16, c64 = torch.float32, torch.float64, torch.bfloat16, torch.complex64
f8, i8, u1 = torch.float8_e5m2, torch.int8, torch.bool

# Shape of the storage, elements that are skipped at its start, dim: None is everything.
CALLS: list[tuple[str, torch.dtype, tuple[int, ...], int, int | None]] = [
    # Rows: several per thread, a part of a warp, a warp, a block, a few leaves, many leaves.
    ("sum", f32, (70, 3), 0, 1),
    ("sum", bf16, (70, 5), 1, 1),
    ("argmax", i8, (70, 7), 0, 1),
    ("sum", f32, (33, 61), 0, 1),
    ("mean", bf16, (33, 131), 1, 1),
    ("amax", bf16, (9, 517), 3, 1),
    ("argmax", f32, (9, 1031), 0, 1),
    ("sum", c64, (5, 517), 0, 1),
    ("sum", f64, (5, 1031), 1, 1),
    ("sum", f32, (3, 4999), 1, 1),
    ("sum", f8, (3, 9001), 1, 1),
    ("amax", f32, (3, 20011), 0, 1),
    ("sum", bf16, (2, 40009), 1, 1),
    ("argmax", bf16, (2, 40009), 1, 1),
    ("sum", u1, (2, 40009), 3, 1),
    # Short ones side by side: several to a vector, whole vectors, through shared memory.
    ("sum", f32, (64, 2), 0, 1),
    ("amax", bf16, (72, 4), 0, 1),
    ("sum", f32, (70, 20), 0, 1),
    ("argmax", bf16, (301, 64), 0, 1),
    ("sum", bf16, (301, 37), 3, 1),
    ("argmax", f32, (301, 33), 1, 1),
    ("sum", f32, (9, 1000), 0, 1),
    ("sum", bf16, (9, 8192), 0, 1),
    # Everything: one block, and many.
    ("sum", f32, (5,), 0, None),
    ("sum", f32, (100_003,), 1, None),
    ("sum", bf16, (300_007,), 1, None),
    ("mean", i8, (300_007,), 3, None),
    ("amax", f32, (300_007,), 0, None),
    ("argmax", f32, (300_007,), 1, None),
    ("argmax", i8, (300_007,), 0, None),
    ("sum", c64, (50_021,), 0, None),
    # Columns: narrow, odd, wide, tall.
    ("sum", f32, (1031, 3), 0, 0),
    ("sum", bf16, (4099, 5), 1, 0),
    ("argmax", f32, (1031, 3), 0, 0),
    ("sum", f32, (2, 1024), 0, 0),
    ("sum", bf16, (13, 1024), 0, 0),
    ("sum", bf16, (600, 1024), 0, 0),
    ("sum", f32, (4099, 3), 1, 0),
    ("amax", i8, (517, 33), 1, 0),
    ("sum", f32, (67, 257), 1, 0),
    ("sum", f64, (131, 65), 0, 0),
    ("mean", bf16, (5, 2051), 0, 0),
    ("argmax", bf16, (517, 129), 1, 0),
    ("sum", f32, (30_011, 9), 0, 0),
    ("amax", f32, (30_011, 9), 0, 0),
    ("argmax", i8, (30_011, 9), 0, 0),
    # Two words in a lane, complex numbers, other packed forms.
    ("nanmean", bf16, (3, 9001), 1, 1),
    ("nanmean", f64, (131, 65), 0, 0),
    ("norm", bf16, (3, 9001), 1, 1),
    ("norm", f32, (9, 1031), 0, 1),
    ("norm", f32, (300_007,), 1, None),
    ("norm", f64, (131, 65), 0, 0),
    ("norm", c64, (4099, 3), 0, 0),
    ("prod", i8, (2, 40009), 3, 1),
    ("prod", c64, (33, 61), 0, 1),
    ("argmin", bf16, (2, 40009), 1, 1),
    ("amin", i8, (517, 33), 1, 0),
    ("all", u1, (2, 40009), 3, 1),
    ("any", bf16, (517, 129), 1, 0),
    ("any", f32, (70, 7), 0, 1),
    # With a focus: leaves that may be walked again.
    ("var", f32, (70, 3), 0, 1),
    ("var", bf16, (301, 37), 3, 1),
    ("std", f32, (301, 64), 0, 1),
    ("var", bf16, (9, 1031), 1, 1),
    ("std", f32, (3, 20011), 1, 1),
    ("var", bf16, (300_007,), 1, None),
    ("var", c64, (517, 33), 0, 0),
    ("var", f32, (67, 257), 1, 0),
    ("std", bf16, (4099, 5), 1, 0),
    ("logsumexp", f32, (301, 33), 1, 1),
    ("logsumexp", bf16, (9, 517), 3, 1),
    ("logsumexp", f32, (3, 4999), 1, 1),
    ("logsumexp", bf16, (300_007,), 1, None),
    ("logsumexp", i8, (2, 40009), 3, 1),
    # What comes next through shared memory: a leaf a block, and several; the last one cut short.
    ("var", f32, (3, 24576), 0, 1),
    ("std", bf16, (540, 20520), 0, 1),
    ("logsumexp", f32, (540, 10244), 0, 1),
    ("sum", bf16, (540, 24584), 0, 1),
    ("logsumexp", f32, (517, 33), 1, 0),
    ("logsumexp", f8, (4099, 5), 1, 0),
    # The middle one of three dims, and several dims at once.
    ("sum", f32, (5, 67, 9), 0, 1),
    ("amax", bf16, (3, 131, 33), 1, 1),
    ("argmax", f32, (3, 131, 33), 0, 1),
]


def assert_right(op: str, t: torch.Tensor, dim: int | list[int] | None) -> None:
    arguments: dict[str, object] = {"dim": dim}
    if op == "mean" and not is_inexact(t.dtype):
        arguments["dtype"] = f32
    function = getattr(ops, op)
    got = function(t, **arguments)
    # The same library on the CPU, which the other tests check.
    on_cpu = torch.empty_like(t, device="cpu").copy_(t)
    want = function(on_cpu, **arguments)
    # A copy lies otherwise in memory, and so it is walked otherwise; exponentials round otherwise.
    if isinstance(dim, list) or op == "logsumexp":
        torch.testing.assert_close(got.cpu(), want)
    else:
        torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("op", "dtype", "shape", "skipped", "dim"), CALLS, ids=str)
def test_kernel_family(
    op: str, dtype: torch.dtype, shape: tuple[int, ...], skipped: int, dim: int | None, cuda: str
) -> None:
    numel = skipped + torch.Size(shape).numel()
    values = some_numbers(generator(op, name(dtype), shape), (numel,), dtype, -2, 3)
    # To its last element; with PYTORCH_NO_CUDA_MEMORY_CACHING=1 an allocation of its own, so that a
    # read past the end is seen.
    assert_right(op, values.to(cuda)[skipped:].view(shape), dim)


@pytest.mark.parametrize("op", OPS)
def test_strided(op: str, cuda: str) -> None:
    base = torch.arange(7 * 33 * 13.0, device=cuda).reshape(7, 33, 13)
    if op == "prod":  # of numbers near 1, which stays in range in any order
        base = 1 + (base % 7 - 3) / 64
    assert_right(op, base[:, ::2, 1:].permute(2, 0, 1), 2)
    assert_right(op, base[::3, :, ::5].expand(3, 33, 3), 1)
    if op in LIST_OPS:
        assert_right(op, base.permute(1, 2, 0), [0, 2])


@pytest.mark.parametrize(
    ("op", "dtype"),
    [*((op, dtype) for op in ("sum", "amax") for dtype in (f32, bf16, i8)), ("var", f32)],
    ids=str,
)
def test_segments(op: str, dtype: torch.dtype, cuda: str) -> None:
    """Rows that are chains of segments: aligned, at odd ends, and from an odd start."""
    aligned, several_leaves, odd = (5, 3, 16, 64), (9, 3, 64, 64), (5, 3, 49, 11)
    for shape, skipped in ((aligned, 0), (several_leaves, 0), (odd, 0), (aligned, 1)):
        numel = skipped + torch.Size(shape).numel()
        values = some_numbers(generator(op, name(dtype), shape), (numel,), dtype, -2, 3)
        assert_right(op, values.to(cuda)[skipped:].view(shape), [0, 2, 3])


@pytest.mark.parametrize("dtype", [f32, bf16, i8], ids=name)
@pytest.mark.parametrize(("shape", "dim"), [((9, 1031), 1), ((517, 129), 0), ((70, 7), 1)], ids=str)
def test_several_outputs(shape: tuple[int, int], dim: int, dtype: torch.dtype, cuda: str) -> None:
    t = some_numbers(generator("two", name(dtype)), shape, dtype, -2, 3)
    functions = [ops.max, ops.min, ops.aminmax]
    if dtype != i8:
        functions += [ops.var_mean, ops.std_mean, ops.stats]
    for function in functions:
        for got, want in zip(function(t.to(cuda), dim), function(t, dim), strict=True):
            assert torch.equal(got.cpu(), want)


@pytest.mark.parametrize("dtype", [f32, bf16, f64, c64], ids=name)
@pytest.mark.parametrize(("shape", "dim"), [((9, 1031), 1), ((517, 129), 0), ((70, 7), 1)], ids=str)
def test_norm_of_order_3(shape: tuple[int, ...], dim: int, dtype: torch.dtype, cuda: str) -> None:
    t = some_numbers(generator("norm", name(dtype)), shape, dtype, -2, 3)
    torch.testing.assert_close(ops.norm(t.to(cuda), 3, dim).cpu(), ops.norm(t, 3, dim))


@pytest.mark.parametrize("rung", ["v1", "v2", "v3_warp", "v3"])
def test_ladder(rung: str, cuda: str) -> None:
    for n in (33, 70_001):
        assert ops.sum_rung(torch.ones(n, device=cuda), rung).item() == n
