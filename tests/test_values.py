"""Any view, dtype and dims against references in which no order of combination enters."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import references
import torch
from dtypes import (
    ALL,
    COMPLEX,
    DTYPES_OF,
    FLOATS,
    HALF,
    INDICES,
    INTEGERS,
    LIST_OPS,
    OPS,
    REAL,
    SPREADS,
    SUMS,
    TRUTHS,
    UNSIGNED,
    VALUES,
    WITH_DTYPE,
    is_inexact,
    name,
    of_torch,
    result_dtype,
    to_dtype,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy_walk import Dims, expected, result_shape
from tensors import assert_same_bits, bits_of, generator, one_nan, some_numbers
from views import View, dims, one_dim, views

ops = torch.ops.gpureduce


def assert_like_torch(
    op: str, got: torch.Tensor, view: View, t: torch.Tensor, **call: object
) -> None:
    """Shape, strides and dtype as torch gives them for this geometry, and memory of its own."""
    # float32 in the same geometry: torch does not reduce each of the dtypes, nor several dims with
    # each op.
    stand_in = view.like(torch.float32, str(t.device))
    theirs = {"prod": "sum", "nansum": "sum", "nanmean": "mean"}.get(op, op)
    try:
        want = getattr(torch, theirs)(stand_in, **call)
    except (IndexError, RuntimeError):
        raise AssertionError(f"torch.{op} refuses {call}, and gpureduce does not") from None
    assert got.shape == want.shape
    assert got.stride() == want.stride()
    assert got.is_contiguous()
    assert got.device == t.device
    if t.numel() and got.numel():
        assert got.untyped_storage().data_ptr() != t.untyped_storage().data_ptr()


TARGETS = st.none() | st.sampled_from(ALL)


@pytest.mark.parametrize(("op", "dtype"), [(op, d) for op in SUMS for d in DTYPES_OF[op]])
@given(data=st.data())
def test_sums_and_means(op: str, dtype: torch.dtype, device: str, data: st.DataObject) -> None:
    view = data.draw(views(dtype))
    dim = data.draw(dims(len(view.sizes)))
    keepdim = data.draw(st.booleans())
    asked = data.draw(TARGETS)
    if op.endswith("mean") and not is_inexact(asked or dtype):
        asked = torch.float32
    t = view.build(device)
    before = bits_of(t)
    got = getattr(ops, op)(t, dim, keepdim, dtype=asked)
    assert got.dtype == result_dtype(op, dtype, asked)
    assert_like_torch(op, got, view, t, dim=dim, keepdim=keepdim)
    if is_inexact(got.dtype):
        references.sum_interval(op, t, dim, keepdim, asked).check(got)
    else:
        assert_same_bits(got, references.integer_sum(t, dim, keepdim, asked))
    assert torch.equal(bits_of(t), before)


@pytest.mark.parametrize("dtype", ALL, ids=name)
@given(data=st.data())
def test_products(dtype: torch.dtype, device: str, data: st.DataObject) -> None:
    view = data.draw(views(dtype))
    dim = data.draw(dims(len(view.sizes)))
    keepdim = data.draw(st.booleans())
    asked = data.draw(TARGETS)
    t = view.build(device)
    got = ops.prod(t, dim, keepdim, dtype=asked)
    assert_like_torch("prod", got, view, t, dim=dim, keepdim=keepdim)
    if is_inexact(got.dtype):
        assert_same_bits(got, expected("prod", t, dim, keepdim, asked or dtype))
    else:
        assert_same_bits(got, references.integer_prod(t, dim, keepdim, asked))


def assert_equal_numbers(got: torch.Tensor, want: torch.Tensor) -> None:
    """Equal values, NaN equal to NaN and -0.0 to 0.0."""
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    got, want = (references.logical(t.cpu()) for t in (got, want))
    if got.dtype.is_floating_point:
        torch.testing.assert_close(got.double(), want.double(), rtol=0, atol=0, equal_nan=True)
    else:
        assert torch.equal(got, want)


def reducible(view: View, dim: Dims) -> bool:
    """Whether each result has an element to choose."""
    if dim is None or dim == []:
        return 0 not in view.sizes
    chosen = [dim] if isinstance(dim, int) else list(dim)
    return not view.sizes or all(view.sizes[d] > 0 for d in chosen)


def filled(view: View, dim: Dims) -> View:
    """The view, or one like it in which each result has an element."""
    if reducible(view, dim):
        return view
    sizes = tuple(max(1, n) for n in view.sizes)
    return View(view.dtype, sizes, view.strides, view.offset, 1, True)


@pytest.mark.parametrize("dtype", REAL, ids=name)
@given(data=st.data())
def test_largest_and_smallest(dtype: torch.dtype, device: str, data: st.DataObject) -> None:
    view = data.draw(views(dtype))
    dim = data.draw(dims(len(view.sizes)))
    view = filled(view, dim)
    keepdim = data.draw(st.booleans())
    t = view.build(device)
    for op in VALUES:
        got = getattr(ops, op)(t, dim, keepdim)
        assert_like_torch(op, got, view, t, dim=[] if dim is None else dim, keepdim=keepdim)
        assert_equal_numbers(got, getattr(references, op)(t, dim, keepdim))
    ends = ops.aminmax(t, dim, keepdim)
    assert_same_bits(ends[0], ops.amin(t, dim, keepdim))
    assert_same_bits(ends[1], ops.amax(t, dim, keepdim))
    if dim is None:
        assert_same_bits(ops.max(t), ops.amax(t))
        assert_same_bits(ops.min(t), ops.amin(t))


@pytest.mark.parametrize("dtype", REAL, ids=name)
@given(data=st.data())
def test_where_they_are(dtype: torch.dtype, device: str, data: st.DataObject) -> None:
    view = data.draw(views(dtype))
    dim = data.draw(one_dim(len(view.sizes)))
    view = filled(view, dim)
    keepdim = data.draw(st.booleans())
    t = view.build(device)
    for op, value, both in (("argmax", "amax", "max"), ("argmin", "amin", "min")):
        got = getattr(ops, op)(t, dim, keepdim)
        assert_like_torch(op, got, view, t, dim=dim, keepdim=keepdim)
        assert_same_bits(got, getattr(references, op)(t, dim, keepdim))
        if dim is not None:
            values, indices = getattr(ops, both)(t, dim, keepdim)
            assert_same_bits(indices, got)
            assert_equal_numbers(values, getattr(ops, value)(t, dim, keepdim))
            if dtype.is_floating_point:
                assert not values.cpu().double()[values.cpu().double() == 0].signbit().any()


@pytest.mark.parametrize("dtype", ALL, ids=name)
@given(data=st.data())
def test_what_is_not_zero(dtype: torch.dtype, device: str, data: st.DataObject) -> None:
    view = data.draw(views(dtype))
    dim = data.draw(dims(len(view.sizes)))
    keepdim = data.draw(st.booleans())
    t = view.build(device)
    if data.draw(st.booleans()):
        # Rarely anything: `any` has a choice then.
        t = t.clone()
        t.view(torch.uint8 if t.itemsize == 1 else t.dtype).fill_(0)
        t.flatten()[3:4].view(torch.uint8 if t.itemsize == 1 else t.dtype).fill_(1)
    where = references.nonzero(t, dim)
    shape = result_shape(t.shape, dim, keepdim)
    assert_same_bits(
        ops.count_nonzero(t, dim), where.sum(1).reshape(result_shape(t.shape, dim, False))
    )
    for op in TRUTHS:
        got = getattr(ops, op)(t, dim, keepdim)
        assert got.dtype == result_dtype(op, dtype)
        if dim == []:
            assert_like_torch(op, got, view, t, dim=(), keepdim=keepdim)
            assert_same_bits(got, references.is_nonzero(t.cpu()).to(got.dtype))
            continue
        given = {} if dim is None else {"dim": dim, "keepdim": keepdim}
        if given or not keepdim:  # torch's take keepdim beside dim only
            assert_like_torch(op, got, view, t, **given)
        assert_same_bits(got, getattr(where, op)(1).to(got.dtype).reshape(shape))


@pytest.mark.parametrize("dtype", ALL, ids=name)
@pytest.mark.parametrize("op", OPS)
def test_result_dtypes_are_torchs(op: str, dtype: torch.dtype, device: str) -> None:
    """And where torch has none, that of the neighbouring dtypes."""
    t = torch.ones(3).to(dtype).to(device)
    for asked in (None, *ALL):
        call = {"dtype": asked} if asked is not None and op in WITH_DTYPE else {}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an imaginary part is discarded
                want = of_torch(op)(t.cpu(), **call).dtype
        except NotImplementedError:
            want = result_dtype(op, dtype, asked)
        except RuntimeError:  # a mean in integers, an order of complex numbers: test_errors.py
            continue
        if dtype not in DTYPES_OF[op] or (op == "nanmean" and not is_inexact(asked or dtype)):
            continue
        assert getattr(ops, op)(t, **call).dtype == want


@pytest.mark.parametrize("op", OPS)
def test_a_0d_tensor_has_dims_0_and_minus_1(op: str, device: str) -> None:
    t = torch.tensor(-2.5, device=device)
    for dim in (None, 0, -1):
        got = getattr(ops, op)(t, dim)
        assert got.shape == ()
        want = 0 if op in INDICES else math.nan if op in SPREADS else op in TRUTHS or -2.5
        assert got.item() == pytest.approx(want, rel=0, nan_ok=True)
        assert got.data_ptr() != t.data_ptr()
    if op in LIST_OPS:
        for dim_list in ([], [0], [-1]):
            got = getattr(ops, op)(t, dim_list)
            assert got.item() == pytest.approx(want, rel=0, nan_ok=True)


@pytest.mark.parametrize("op", [*WITH_DTYPE, *VALUES, "logsumexp"])
@pytest.mark.parametrize("shape", [(1,), (3, 1, 2), (5, 1), (1, 1, 1)])
def test_where_nothing_is_reduced_the_result_is_a_copy(
    op: str, shape: tuple[int, ...], device: str
) -> None:
    t = torch.arange(1.0, 1 + math.prod(shape), device=device).reshape(shape)
    dim = shape.index(1)
    got = getattr(ops, op)(t, dim, True)
    assert torch.equal(got, t)
    got += 1
    assert torch.equal(t.flatten(), torch.arange(1.0, 1 + t.numel(), device=device))


def every_value(dtype: torch.dtype) -> torch.Tensor:
    """Each value of a dtype of one or two bytes."""
    if dtype.itemsize == 1:
        return torch.arange(256).to(torch.uint8).view(dtype)
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)


def telling_values(dtype: torch.dtype) -> torch.Tensor:
    """Values on either side of where narrower dtypes round, overflow and underflow; ties too."""
    if not is_inexact(dtype):
        info = torch.iinfo(dtype)
        integers = {0, 1, 2, 3, info.min, info.max, info.max - 1, info.min + 1}
        for k in range(1, info.bits):
            integers |= {
                v
                for d in (-1, 0, 1)
                for s in (1, -1)
                if info.min <= (v := s * 2**k + d) <= info.max
            }
        return torch.from_numpy(np.array(sorted(integers), name(dtype)))
    values = [0.0, -0.0, math.inf, -math.inf, math.nan]
    steps = [2.0**-k for k in (2, 3, 4, 7, 8, 9, 10, 11, 12, 23, 24, 25, 30, 40, 52)]
    for exponent in (*range(-30, 20), -150, -149, -140, -133, -127, -126, 100, 127, 128):
        power = 2.0**exponent
        for step in (0.0, *steps):
            for finer in (0.0, 2.0**-45, -(2.0**-45)):
                values += [power * (1 + step + finer), -power * (1 + step + finer)]
    values += [
        v * (1 + d)
        for v in (57344.0, 61440.0, 65504.0, 65520.0, 448.0, 464.0, 480.0)
        for d in (0.0, 2.0**-22, -(2.0**-22), 2.0**-50, -(2.0**-50))
    ]
    real = torch.tensor(values, dtype=torch.float64)
    return torch.complex(real, -real.flip(0)).to(dtype) if dtype.is_complex else real.to(dtype)


NARROW = [*(d for d in FLOATS if d.itemsize <= 2), torch.int8, torch.uint8, torch.int16]


@pytest.mark.parametrize("target", ALL, ids=name)
@pytest.mark.parametrize("source", [d for d in ALL if d != torch.bool], ids=name)
def test_elements_convert_as_torch_converts_them(
    source: torch.dtype, target: torch.dtype, device: str
) -> None:
    """The sum of one value is that value converted; that of -0.0 is 0.0."""
    values = every_value(source) if source in NARROW else telling_values(source)
    want = to_dtype(values, target)
    if target.is_complex:
        want = torch.complex(want.real + 0.0, want.imag + 0.0)
    elif target.is_floating_point:
        want = torch.where(want.double() == 0, 0.0, want.double()).to(target)
    want = one_nan(want)
    got = ops.sum(values.to(device).unsqueeze(1), 1, dtype=target)
    assert_same_bits(got, want)
    got = ops.sum(values.to(device).unsqueeze(0), 0, dtype=target)
    assert_same_bits(got, want)


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.itemsize <= 2], ids=name)
def test_results_are_rounded_to_nearest_even_once(dtype: torch.dtype, device: str) -> None:
    """Of two values the accumulated sum has all the bits that decide."""
    values = every_value(dtype)
    if dtype in HALF:
        rng = generator("pairs", name(dtype))
        picks = torch.from_numpy(rng.integers(0, len(values), (200_000, 2)))
    else:
        picks = torch.cartesian_prod(torch.arange(256), torch.arange(256))
    pairs = values.view(torch.uint8 if dtype.itemsize == 1 else torch.int16)[picks].view(dtype)
    # A lane begins with 0, so two -0.0 make 0.0.
    total = (0.0 + pairs[:, 0].float()) + (0.0 + pairs[:, 1].float())
    assert_same_bits(ops.sum(pairs.to(device), 1), to_dtype(one_nan(total), dtype))
    assert_same_bits(ops.mean(pairs.to(device), 1), to_dtype(one_nan(total / 2), dtype))


@pytest.mark.parametrize("dtype", [d for d in INTEGERS if d != torch.bool], ids=name)
@pytest.mark.parametrize("n", [1, 3, 64, 1000, 70001])
def test_integers_are_exact_and_wrap(dtype: torch.dtype, n: int, device: str) -> None:
    rng = generator("integers", name(dtype), n)
    values = some_numbers(rng, (3, n), dtype, 0, 0)
    values[0] = torch.from_numpy(np.full(n, np.iinfo(name(dtype)).max, name(dtype)))
    for t, dim in ((values.to(device), 1), (values.t().contiguous().to(device), 0)):
        total = [sum(row) for row in values.tolist()]
        signed = [(v + 2**63) % 2**64 - 2**63 for v in total]
        assert ops.sum(t, dim).tolist() == signed
        small = torch.tensor([(v + 2**7) % 2**8 - 2**7 for v in total], dtype=torch.int8)
        assert_same_bits(ops.sum(t, dim, dtype=torch.int8), small)
        if dtype in UNSIGNED:
            top = [v % 2**64 for v in total]
            assert ops.sum(t, dim, dtype=torch.uint64).tolist() == top


@pytest.mark.parametrize("n", [1, 2, 17, 300, 4097, 70001])
def test_counting_in_bool(n: int, device: str) -> None:
    for t in (torch.zeros(n), torch.ones(n), torch.arange(n) == n - 1):
        asked = ops.sum(t.to(device), dtype=torch.bool)
        assert asked.dtype == torch.bool
        assert bool(asked) == bool(t.any())
        assert ops.sum((t != 0).to(device)).item() == int((t != 0).sum())


@pytest.mark.parametrize("dtype", REAL, ids=name)
@pytest.mark.parametrize("n", [1, 2, 3, 16, 33, 1000, 4097, 70001])
def test_the_extreme_may_be_anywhere(dtype: torch.dtype, n: int, device: str) -> None:
    """At each of many places, alone and twice."""
    low, high = (0, 1) if dtype == torch.bool or dtype in UNSIGNED else (-3, 2)
    places = sorted({0, n - 1, n // 2, *generator("places", n).integers(0, n, 20).tolist()})
    rows = torch.full((len(places), n), float(low))
    for row, place in enumerate(places):
        rows[row, place] = high
        rows[row, max(place, n - 2)] = high
    for t, dim in ((rows, 1), (rows.t().contiguous(), 0)):
        t = t.to(dtype).to(device)
        assert ops.argmax(t, dim).tolist() == places
        assert ops.amax(t, dim).float().tolist() == [float(high)] * len(places)
        assert ops.max(t, dim)[1].tolist() == places
        upside_down = (high + low - t.float()).to(dtype)
        assert ops.argmin(upside_down, dim).tolist() == places
        assert ops.amin(upside_down, dim).float().tolist() == [float(low)] * len(places)
        assert ops.min(upside_down, dim)[1].tolist() == places


def every_kind_of_nan(dtype: torch.dtype) -> torch.Tensor:
    """Signalling and quiet ones, both signs, payloads."""
    if dtype in NARROW:
        values = every_value(dtype)
        return values[values.isnan()]
    integer, quiet = (torch.int32, 1 << 22) if dtype == torch.float32 else (torch.int64, 1 << 51)
    infinity = int(bits_of(torch.tensor(math.inf, dtype=dtype)))
    positive = [infinity + p for p in (1, 77, quiet, quiet + 5, 2 * quiet - 1)]
    sign = torch.iinfo(integer).min
    return torch.tensor(positive + [p + sign for p in positive], dtype=integer).view(dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=name)
def test_every_nan_is_the_same_nan(dtype: torch.dtype, device: str) -> None:
    """Whatever sign and payload it had, and however a sum came by it."""
    nans = every_kind_of_nan(dtype.to_real())
    if dtype.is_complex:
        nans = torch.complex(nans, nans.flip(0))
    numbers = ["sum", "mean", "prod", *([] if dtype.is_complex else VALUES)]
    want = one_nan(nans)
    for n in (1, 2, 40, 3000):
        rows = torch.ones(len(nans), n).to(dtype)
        rows[:, n // 2] = nans
        for op in numbers:
            assert_same_bits(getattr(ops, op)(rows.to(device), 1), want)
            assert_same_bits(getattr(ops, op)(rows.t().contiguous().to(device), 0), want)
        if not dtype.is_complex:
            for both in (ops.max, ops.min):
                assert_same_bits(both(rows.to(device), 1)[0], want)
    assert_same_bits(ops.mean(torch.ones(0).to(dtype).to(device)), want[0])
    if dtype not in (torch.float8_e4m3fn, *COMPLEX):
        infinities = torch.tensor([math.inf, -math.inf] * 50).to(dtype)
        assert_same_bits(ops.sum(infinities.to(device)), want[0])


@pytest.mark.parametrize("op", OPS)
def test_conj_and_neg_views(op: str, device: str) -> None:
    """They stand for other values than those in memory."""
    values = some_numbers(generator("conj"), (7, 33), torch.complex64, -2, 2).to(device)
    negated = values.conj().imag
    assert negated.is_neg()
    for dim in (None, 0, 1):
        got = getattr(ops, op)(negated, dim)
        assert_same_bits(got, getattr(ops, op)(negated.resolve_neg(), dim))
        if op in ("sum", "mean", "nansum", "nanmean"):
            assert values.conj().is_conj()
            got = getattr(ops, op)(values.conj(), dim)
            assert_same_bits(got, getattr(ops, op)(values, dim).conj().resolve_conj())
            got = getattr(ops, op)(torch._neg_view(values.conj()), dim)
            assert_same_bits(got, getattr(ops, op)(-values.conj().resolve_conj(), dim))


@pytest.mark.parametrize("op", OPS)
def test_shape_of_every_dim_and_keepdim(op: str, device: str) -> None:
    t = torch.arange(120.0, device=device).reshape(2, 3, 4, 5)
    for keepdim in (False, True):
        for dim in (None, *range(-4, 4)):
            got = getattr(ops, op)(t, dim, keepdim=keepdim)
            assert list(got.shape) == result_shape(t.shape, dim, keepdim)
