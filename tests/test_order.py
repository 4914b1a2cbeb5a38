"""One order of combination: the ops, the NumPy walk and every layout of the same values agree to
the bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pytest
import tensors
import torch
import views
from dtypes import COMPLEX, DTYPES_OF, FLOATS, HALF, name
from hypothesis import given
from hypothesis import strategies as st
from numpy_walk import OF_MOMENTS, ORDERED, Dims, combine, expected, order, p2, walk
from tensors import Kind, Layout, assert_same_bits, powers_and_neighbours, sequences

ops = torch.ops.gpureduce

f8e4, f8e5, f16, bf16 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16
f32, f64, c64, c128 = torch.float32, torch.float64, torch.complex64, torch.complex128

# Magnitudes stay where no sum overflows the result; the dtype's smallest value limits them below.
PLAIN = [
    Kind(f8e4, None, -6, 7, cancels=True),
    Kind(f8e5, None, -14, 13, cancels=True),
    Kind(f16, None, -12, 8, cancels=True),
    Kind(bf16, None, cancels=True),
    Kind(f32),
    Kind(f64, None, -40, 40),
    Kind(c64),
    Kind(c128, None, -40, 40),
]
CONVERTED = [
    Kind(f8e4, f32, -6, 8, positive=True),
    Kind(f8e5, f32, -14, 14),
    Kind(f16, f32, -14, 14),
    Kind(bf16, f32),
    Kind(bf16, f64, -60, 60),
    Kind(f32, f64, -60, 60),
    Kind(f64, f32),
    Kind(f32, f16, -12, 8, cancels=True),
    Kind(f64, bf16, cancels=True),
    Kind(bf16, f16, -12, 8, cancels=True),
    Kind(f16, bf16, -12, 8, cancels=True),
    Kind(f32, f8e5, -14, 13, cancels=True),
    Kind(f32, c64),
    Kind(f16, c128, -14, 14),
    Kind(c64, c128),
    Kind(c128, c64),
    Kind(c64, f32),
    Kind(torch.int8, f32),
    Kind(torch.uint8, f16),
    Kind(torch.int16, bf16),
    Kind(torch.int32, f32),
    Kind(torch.uint32, f32),
    Kind(torch.int64, f32),
    Kind(torch.int64, f64),
    Kind(torch.uint64, f64),
    Kind(torch.bool, f32),
]

# Both sides of every threshold: 512 bytes for each element size, the smallest and the largest
# number of lanes, the first leaves and a half, and the 8 MiB above which leaves grow.
LENGTHS = [
    *(1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33),
    *powers_and_neighbours(64, 4096),
    *(1000, 6143, 6144, 8191, 8192, 8193, 12287, 12288, 12289, 16383, 16384, 16385),
    *(24575, 24576, 24577, 40000, 65535, 65536, 65537, 100003),
    *(2**20 - 1, 2**20, 2**20 + 1, 2**21 * 3 + 5),
]
LONGEST = max(LENGTHS)


@lru_cache(maxsize=4)
def results(kind: Kind, n: int, seed: int) -> dict[str, torch.Tensor]:
    """What the walk makes of each of the three sequences."""
    values = sequences(kind, n)
    return {op: expected(op, values, 1, dtype=kind.dtype) for op in ("sum", "mean")}


def check_layout(kind: Kind, n: int, layout: Layout, device: str) -> None:
    laid_out = tensors.lay_out(layout, sequences(kind, n), device)
    want = results(kind, n, tensors.SEED)
    which = tensors.sequence_of_result(layout)
    for op in ("sum", "mean"):
        got = getattr(ops, op)(laid_out, layout.dim, dtype=kind.dtype)
        assert_same_bits(got.flatten(), want[op][which])


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("kind", PLAIN + CONVERTED, ids=str)
def test_sums_have_the_bits_of_the_walk(kind: Kind, n: int, device: str) -> None:
    check_layout(kind, n, tensors.rows(tensors.SEQUENCES), device)
    alone = sequences(kind, n)[0].to(device)
    for op in ("sum", "mean"):
        want = results(kind, n, tensors.SEED)[op][0]
        assert_same_bits(getattr(ops, op)(alone, dtype=kind.dtype), want)


# The other ordered ops: near 1, so that products stay in range and no square is exact.
OTHERS = [op for op in ORDERED if op not in ("sum", "mean")]
OTHER_KINDS = [
    Kind(f8e4, None, -1, 1),
    Kind(f8e5, f32, -1, 1),
    Kind(f16, None, -1, 1),
    Kind(bf16, None, -1, 1),
    Kind(bf16, f32, -1, 1),
    Kind(f32, None, -1, 1),
    Kind(f64, None, -1, 1),
    Kind(f32, f64, -1, 1),
    Kind(c64, None, -1, 1),
    Kind(c128, None, -1, 1),
    Kind(c64, c128, -1, 1),
]
OTHER_LENGTHS = [1, 2, 7, 33, 129, 513, 1025, 4097, 6145, 8193, 24577, 100003]


def call(op: str, t: torch.Tensor, dim: Dims, dtype: torch.dtype | None) -> torch.Tensor:
    if op.startswith("norm"):
        return ops.norm(t, float(op[4:]), dim, dtype=dtype)
    if op == "mean_of_moments":
        return ops.var_mean(t, dim)[1]
    keywords = {} if dtype is None else {"dtype": dtype}
    return getattr(ops, op)(t, dim, **keywords)


SOME_LAYOUTS = [
    tensors.rows(tensors.SEQUENCES),
    tensors.columns(5),
    tensors.columns_of_wider(7),
    tensors.every(2),
    tensors.pitched(3),
    tensors.middle(2, 8),
]


@pytest.mark.parametrize("n", OTHER_LENGTHS)
@pytest.mark.parametrize(
    ("op", "kind"),
    [(op, k) for op in OTHERS for k in OTHER_KINDS if k.dtype is None or op not in OF_MOMENTS],
    ids=str,
)
def test_other_ops_have_the_bits_of_the_walk(op: str, kind: Kind, n: int, device: str) -> None:
    values = sequences(kind, n).clone()
    if op.startswith("nan"):
        values[:, ::5] = math.nan
    if op == "prod" and n > 300:
        # A long product of random numbers is 0 or inf: most are 1 but for a few last places.
        wide = values.to(c128 if kind.input.is_complex else f64)
        values = torch.where((torch.arange(n) % (n // 50)) == 0, wide, 1 + wide / 4096)
        values = values.to(kind.input)
    want = expected(op, values, 1, dtype=kind.dtype)
    if op == "prod" and kind.input in (f32, f64):
        assert ((want.abs() > 1e-30) & (want.abs() < 1e30)).all()
    for layout in SOME_LAYOUTS:
        laid_out = tensors.lay_out(layout, values, device)
        got = call(op, laid_out, layout.dim, kind.dtype)
        assert_same_bits(got.flatten(), want[tensors.sequence_of_result(layout)])
    assert_same_bits(call(op, values[0].to(device), None, kind.dtype), want[0])


# Exponentials and logarithms enter, which processors round differently: the bits are those of the
# row alone on the same device.
TRANSCENDENTAL = [("logsumexp", Kind(d, None, -1, 1)) for d in (f8e5, f16, bf16, f32, f64)]
TRANSCENDENTAL += [("logsumexp", Kind(torch.int8)), ("logsumexp", Kind(torch.bool))]
TRANSCENDENTAL += [
    (f"norm{p}", Kind(d, asked, -1, 1))
    for p in (3, -1.5)
    for d, asked in ((f8e5, None), (bf16, None), (f32, None), (f32, f64), (c64, None), (c128, None))
]


@pytest.mark.parametrize("n", OTHER_LENGTHS)
@pytest.mark.parametrize(("op", "kind"), TRANSCENDENTAL, ids=str)
def test_exponentials_have_one_answer_in_every_layout(
    op: str, kind: Kind, n: int, device: str
) -> None:
    values = sequences(kind, n)
    want = torch.stack([call(op, row.to(device), None, kind.dtype) for row in values]).cpu()
    for layout in SOME_LAYOUTS:
        laid_out = tensors.lay_out(layout, values, device)
        got = call(op, laid_out, layout.dim, kind.dtype)
        assert_same_bits(got.flatten(), want[tensors.sequence_of_result(layout)])
        assert_same_bits(call(op, laid_out, layout.dim, kind.dtype), got)


@pytest.mark.parametrize("op", OTHERS)
@pytest.mark.parametrize("kind", [Kind(f32, None, -1, 1), Kind(c64, None, -1, 1)], ids=str)
def test_the_data_shows_the_order_of_other_ops(op: str, kind: Kind) -> None:
    differ = 0
    # A square root halves relative differences, and variances differ little: rounding hides most of
    # that, so that they need more data.
    more = range(1033, 9000, 131) if op in ("norm2", "var", "std") else ()
    lengths = (1025, 6145, 24577, 100003, *more)
    for n in lengths:
        values = sequences(kind, n).numpy() / (1 if op != "prod" else 4096)
        if op == "prod":
            values = (1 + values).astype(values.dtype)
        how = (values.dtype.itemsize, 4 * values.dtype.itemsize)
        want, other = (combine(op, values, size, kind.input) for size in how)
        differ += int((want != other).sum())
    assert differ >= 4, f"only {differ} of {3 * len(lengths)} results depend on the order"


@pytest.mark.parametrize("n", [5, 1000, 8193])
@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=name)
def test_nansum_of_numbers_is_their_sum(dtype: torch.dtype, n: int, device: str) -> None:
    t = sequences(Kind(dtype, None, -5, 5), n).to(device)
    assert_same_bits(ops.nansum(t, 1), ops.sum(t, 1))
    assert_same_bits(ops.nanmean(t, 1), ops.mean(t, 1))


# What a layout test needs: each element size, both kinds of accumulator, a conversion.
LAYOUT_KINDS = [
    Kind(f8e5, f32, -14, 14),
    Kind(bf16, f32),
    Kind(f16, None, -12, 8, cancels=True),
    Kind(f32),
    Kind(f64, None, -40, 40),
    Kind(c64),
    Kind(c128, None, -40, 40),
    Kind(torch.int32, f32),
]
LAYOUTS = [
    *(tensors.rows(count) for count in (1, 2, 33, 4096)),
    *(tensors.columns(width) for width in (1, 2, 3, 5, 8, 31, 32, 33, 64, 100, 257)),
    *(tensors.columns_of_wider(width) for width in (1, 4, 7, 64, 129)),
    *(tensors.every(step) for step in (2, 3)),
    *(tensors.offset(start) for start in (1, 2, 3, 5, 7)),
    *(tensors.pitched(count) for count in (2, 9)),
    *(tensors.expanded(count) for count in (1, 6)),
    *(tensors.middle(*outer_inner) for outer_inner in ((1, 3), (5, 1), (2, 7), (3, 64))),
]
LAYOUT_LENGTHS = [
    *(1, 2, 3, 5, 8, 16, 17, 33, 64, 127, 129, 257, 512, 1000, 1025, 4097, 6144, 8193),
    *(16385, 24577, 65537, 100003, 2**20 + 1, LONGEST),
]
# Elements of one tensor. A CPU fills that many in milliseconds; a GPU needs more of them before
# it spreads leaves over blocks beside many rows or columns.
LAYOUT_ELEMENTS = {"cpu": 2**18, "cuda": 2**25}


def layouts_of_lengths() -> Iterator[tuple[str, Layout, int]]:
    for device, layout, n in itertools.product(tensors.DEVICES, LAYOUTS, LAYOUT_LENGTHS):
        if layout.results * n <= LAYOUT_ELEMENTS[device]:
            yield device, layout, n


@pytest.mark.parametrize(("on", "layout", "n"), list(layouts_of_lengths()), ids=str)
@pytest.mark.parametrize("kind", LAYOUT_KINDS, ids=str)
def test_every_layout_has_the_bits_of_the_row_alone(
    kind: Kind, on: str, layout: Layout, n: int
) -> None:
    check_layout(kind, n, layout, on)


def assert_walked(t: torch.Tensor, dim: int | list[int] | None, dtype: torch.dtype | None) -> None:
    for op in ("sum", "mean"):
        assert_same_bits(getattr(ops, op)(t, dim, dtype=dtype), expected(op, t, dim, dtype=dtype))


@pytest.mark.parametrize("shape", [(7, 11, 13), (64, 3, 65), (2, 3, 1000), (5, 7, 3, 41)])
@pytest.mark.parametrize("kind", LAYOUT_KINDS, ids=str)
def test_several_dims_are_walked_as_they_lie_in_memory(
    kind: Kind, shape: tuple[int, ...], device: str
) -> None:
    n = math.prod(shape)
    dense = sequences(kind, n)[0].to(device).reshape(shape)
    full = results(kind, n, tensors.SEED)["sum"][0]
    for perm in itertools.permutations(range(len(shape))):
        permuted = dense.permute(perm)
        assert_same_bits(ops.sum(permuted, dtype=kind.dtype), full)
        assert_same_bits(ops.sum(permuted, list(range(len(shape))), dtype=kind.dtype), full)
        for count in range(1, len(shape)):
            for dims in itertools.combinations(range(len(shape)), count):
                assert_walked(permuted, list(dims), kind.dtype)


@pytest.mark.parametrize("kind", LAYOUT_KINDS, ids=str)
def test_channels_last_sums_are_columns(kind: Kind, device: str) -> None:
    batch, channels, height, width = 3, 5, 17, 31
    n = batch * height * width
    matrix = tensors.lay_out(tensors.columns(channels), sequences(kind, n), device)
    image = matrix.view(batch, height, width, channels).permute(0, 3, 1, 2)
    want = ops.sum(matrix, 0, dtype=kind.dtype)
    assert_same_bits(ops.sum(image, (0, 2, 3), dtype=kind.dtype), want)
    assert_walked(image, [0, 2, 3], kind.dtype)
    assert_walked(image, [1, 3], kind.dtype)


@pytest.mark.parametrize("kind", LAYOUT_KINDS, ids=str)
def test_a_reduced_dim_of_stride_0_is_walked_last(kind: Kind, device: str) -> None:
    n, copies = 300, 5
    values = sequences(kind, n)[0].to(device)
    want = expected("sum", values.cpu().repeat_interleave(copies), dtype=kind.dtype)
    for view in (values.unsqueeze(1).expand(n, copies), values.expand(copies, n)):
        assert_same_bits(ops.sum(view, dtype=kind.dtype), want)
        assert_same_bits(ops.sum(view, [1, 0], dtype=kind.dtype), want)


def test_reduced_dims_of_equal_stride_are_walked_by_dim(device: str) -> None:
    values = sequences(Kind(f32), 100)[0].to(device)
    for sizes in ((9, 20), (20, 9)):
        view = values.as_strided(sizes, (3, 3))
        assert_same_bits(ops.sum(view), expected("sum", view.contiguous()))


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX, ids=name)
@given(data=st.data())
def test_any_view_has_the_bits_of_the_walk(
    dtype: torch.dtype, device: str, data: st.DataObject
) -> None:
    view = data.draw(views.views(dtype))
    dim = data.draw(views.dims(len(view.sizes)))
    assert_walked(view.build(device), dim, None)


@pytest.mark.parametrize("n", [1000, 100003, LONGEST])
@pytest.mark.parametrize("kind", [Kind(f32), Kind(bf16, f32), Kind(c128, None, -40, 40)], ids=str)
def test_the_number_of_cpu_threads_does_not_matter(kind: Kind, n: int) -> None:
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            check_layout(kind, n, tensors.rows(1), "cpu")
            check_layout(kind, n, tensors.columns(1 if n > 2**18 else 5), "cpu")
    finally:
        torch.set_num_threads(threads)


GPU_SHAPES = [
    ((1, LONGEST), 1),
    ((40, 100003), 1),
    ((100003, 33), 0),
    ((4097, 129), 0),
    ((3, 5), 1),
]


@pytest.mark.parametrize(("shape", "dim"), GPU_SHAPES)
@pytest.mark.parametrize("kind", [Kind(f32), Kind(bf16, f32)], ids=str)
def test_streams_graphs_and_repeats_do_not_matter(
    kind: Kind, shape: tuple[int, int], dim: int, cuda: str
) -> None:
    layout = tensors.rows(shape[0]) if dim == 1 else tensors.columns(shape[1])
    t = tensors.lay_out(layout, sequences(kind, shape[dim]), cuda)
    want = results(kind, shape[dim], tensors.SEED)["sum"][tensors.sequence_of_result(layout)]

    for _ in range(20):
        assert_same_bits(ops.sum(t, dim, dtype=kind.dtype), want)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        on_side = ops.sum(t, dim, dtype=kind.dtype)
    side.synchronize()
    assert_same_bits(on_side, want)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = ops.sum(t, dim, dtype=kind.dtype)
    for _ in range(3):
        captured.fill_(float("nan"))
        graph.replay()
        assert_same_bits(captured, want)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 1.5, -2.25, 3e-5, math.inf, -math.inf, math.nan]


def special_values(dtype: torch.dtype) -> torch.Tensor:
    """Values on which a merge that favours one side shows, and the largest and smallest ones."""
    real = dtype.to_real()
    info = torch.finfo(real)
    extremes = [info.max, info.min, info.tiny, -info.tiny, info.eps, info.smallest_normal / 2]
    values = torch.tensor(SPECIAL + extremes, dtype=f64).to(real)
    if not dtype.is_complex:
        return values
    pairs = torch.cartesian_prod(values[:12], values[:12])
    return torch.view_as_complex(pairs.contiguous())


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        (op, dtype)
        for op in ("sum", "mean", "prod", "nansum", "nanmean", "norm", "amax", "amin")
        for dtype in FLOATS + COMPLEX
        if dtype in DTYPES_OF.get(op, FLOATS + COMPLEX)
    ],
)
def test_merges_are_commutative_to_the_bit(op: str, dtype: torch.dtype, device: str) -> None:
    values = special_values(dtype)
    index = torch.cartesian_prod(torch.arange(len(values)), torch.arange(len(values)))
    pairs = values[index[:, 0]], values[index[:, 1]]

    def function(t: torch.Tensor, dim: int) -> torch.Tensor:
        return ops.norm(t, 2, dim) if op == "norm" else getattr(ops, op)(t, dim)

    forward = function(torch.stack(pairs, 1).to(device), 1)
    backward = function(torch.stack(pairs[::-1], 1).to(device), 1)
    assert_same_bits(forward, backward)
    # In four lanes a merge takes merged values too: (a + c) + (b + d), and (b + d) + (a + c).
    four = [*pairs, values[index[:, 0].roll(1)], values[index[:, 1].roll(3)]]
    forward = function(torch.stack(four, 1).to(device), 1)
    backward = function(torch.stack([four[i] for i in (1, 0, 3, 2)], 1).to(device), 1)
    assert_same_bits(forward, backward)


@pytest.mark.parametrize("n", [2, 5, 33, 300, 5000, 70001])
@pytest.mark.parametrize("dtype", FLOATS, ids=name)
def test_an_extreme_of_zeros_has_one_sign_wherever_they_lie(
    dtype: torch.dtype, n: int, device: str
) -> None:
    zeros = torch.zeros(n)
    zeros[: n // 2] = -0.0
    shuffles = [zeros, zeros.flip(0)]
    rng = tensors.generator("zeros", n)
    shuffles += [zeros[torch.from_numpy(rng.permutation(n))] for _ in range(6)]
    for op in (ops.amax, ops.amin):
        got = op(torch.stack(shuffles).to(dtype).to(device), 1)
        assert_same_bits(got, got[:1].expand(len(shuffles)))
        columns = op(torch.stack(shuffles, 1).to(dtype).to(device), 0)
        assert_same_bits(columns, got)
        assert got.float().eq(0).all()
        assert got.float().signbit().all() == (op is ops.amin)


@pytest.mark.parametrize(
    "kind", [k for k in PLAIN + CONVERTED if k.input in (*FLOATS, *COMPLEX)], ids=str
)
def test_the_data_shows_the_order(kind: Kind) -> None:
    """The tests above could not fail if every order gave the same bits."""
    differ = 0
    for n in (4095, 6144, 24576, 65535, 65536, 100003, 2**20 - 1, 2**20 + 1):
        values = sequences(kind, n)
        want = results(kind, n, tensors.SEED)["sum"]
        converted = values.to(kind.dtype or values.dtype)
        acc = converted.to(torch.float32 if converted.dtype in (f8e4, f8e5, *HALF) else want.dtype)
        other = walk(acc.numpy(), values.element_size() * 4)
        differ += int((torch.from_numpy(other).to(want.dtype) != want).sum())
    if (kind.input, kind.dtype) in ((f8e4, None), (f16, c128)):
        # Nothing to see: float16 sums are exact in float64, and those of float8_e4m3fn in float32
        # up to 2^15; beyond, what rounding leaves over is too small for a float8_e4m3fn result.
        # Both inputs are there with another result.
        assert differ == 0
    else:
        # Only the last folds of the longer float8_e4m3fn sums are above 2^15 and round.
        least = 2 if kind.input == f8e4 else 6
        assert differ >= least, f"only {differ} of 24 sums depend on the order"


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_the_walk_cuts_what_it_should(size: int) -> None:
    """The NumPy walk itself, against the rules in words."""
    for n, wide in itertools.product((*range(1, 700), *LENGTHS, 2**28 + 3, 2**33), (False, True)):
        how = order(n, size, wide)
        assert how.lanes == p2(how.lanes) and how.leaf % how.lanes == 0
        assert how.lanes <= 2048 and how.lanes * size <= (2048 if wide else 4096)
        if n * size <= 512:
            assert how.lanes == p2(n)
        else:
            assert how.lanes * size >= 512
        assert how.leaf * size >= 16384 and how.num_leaves <= 768
        last = n - (how.num_leaves - 1) * how.leaf
        assert last > 0 and (how.num_leaves == 1 or how.leaf <= 2 * last < 3 * how.leaf)
    ones = np.ones((2, 100003), np.float64)
    assert walk(ones, size).tolist() == [100003.0, 100003.0]
