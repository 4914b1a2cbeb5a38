"""Norms: every order against long double, and the ends of the range of each dtype."""

from __future__ import annotations

import math

import numpy as np
import pytest
import references
import torch
from dtypes import INEXACT, name, to_dtype
from hypothesis import given
from hypothesis import strategies as st
from numpy_walk import Dims, in_walking_order, result_shape
from tensors import generator
from views import dims, views

ops = torch.ops.gpureduce

OF_THEIR_OWN = [0, 1, 2, math.inf, -math.inf]
GENERAL = [3, 0.5, -1, -2.5, 40]
ORDERS = [*OF_THEIR_OWN, *GENERAL]


def magnitudes(rows: torch.Tensor) -> np.ndarray:
    """|x| in long double, whose exponents reach far beyond the squares of any dtype here."""
    if rows.is_complex():
        return np.hypot(*(references.long_values(part) for part in (rows.real, rows.imag)))
    return np.abs(references.long_values(rows))


def exact(order: float, rows: torch.Tensor) -> np.ndarray:
    values = magnitudes(rows)
    if order == 0:
        return (values != 0).sum(1)
    if order == 1:
        return values.sum(1)
    if order == 2:
        return np.sqrt(np.square(values).sum(1))
    if order in GENERAL:
        return general(order, values)
    return values.max(1) if order > 0 else values.min(1)


def general(order: float, values: np.ndarray) -> np.ndarray:
    """Of values relative to the one that counts most."""
    most = values.max(1, initial=0) if order > 0 else values.min(1, initial=np.inf)
    ordinary = np.isfinite(most) & (most > 0)
    shares = values / np.where(ordinary, most, 1)[:, None]
    norm = np.power(np.power(shares, order).sum(1), np.longdouble(1) / order) * most
    return np.where(ordinary | np.isnan(most), norm, most)


def relative_error(order: float, dtype: torch.dtype, n: int, size: int) -> float:
    """Of the accumulated norm: the bound of references.py for its sum, and a few roundings more.

    Order 1 sums |x|, within 2 ulp where x is complex. Order 2 sums squares, each within 2u (one
    product; for complex x a sum of two), and what is lost to underflow is below 2^-29 of the sum
    (docs/accuracy.md); the root halves that and rounds once, scaling back rounds at most once.

    Other orders sum 2^e in float64, e = p (log2 |x| - c) in two integers and two fractions: off by
    (4 |p| + 1) u. The exponential adds 3u and the sum its bound, and the root divides all that by
    p, with an exponent that is off by (2 + 1 / |p|) u (docs/accuracy.md).
    """
    acc = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
    u = torch.finfo(acc).eps / 2
    if order == 1:
        return references.relative_bound(n, size, acc) + 4 * u
    if order == 2:
        return references.relative_bound(n, size, acc) / 2 + 4 * u
    of_magnitude = 4 * u if dtype.is_complex else 0
    if math.isinf(order) or order == 0:
        return of_magnitude
    of_sum = references.relative_bound(n, size, torch.float64, wide_lane=True)
    of_terms = math.log(2) * (4 * abs(order) + 1) * u + 3 * u
    of_root = math.log(2) * (2 * abs(order) + 1) * u
    return of_magnitude + (of_terms + of_sum + of_root) / abs(order) + 4 * u


def check(got: torch.Tensor, t: torch.Tensor, order: float, dim: Dims, result: torch.dtype) -> None:
    rows = in_walking_order(t, dim).cpu()
    with np.errstate(all="ignore"):
        want = exact(order, rows)
        off = want * relative_error(order, t.dtype, rows.shape[1], t.element_size())
        # A result that is subnormal is rounded to a whole number of smallest steps.
        wide = np.float64 if t.dtype in (torch.float64, torch.complex128) else np.float32
        step = np.longdouble(np.finfo(wide).smallest_subnormal)
        off = off + step
        if t.is_complex() and order in GENERAL:
            # So is the absolute value of an element.
            sizes = np.where(magnitudes(rows) > 0, magnitudes(rows), np.inf).min(1, initial=np.inf)
            off = off + want * (step / 2 / sizes)
        ends = [torch.from_numpy(e.astype(wide)) for e in (want - off, want + off)]
    low, high = (to_dtype(end, result).double() for end in ends)
    value = got.cpu().flatten().double()
    inside = (low <= value) & (value <= high)
    inside |= (low.isnan() | high.isnan()) & value.isnan()  # NaN, or past all of float8_e4m3fn
    inside |= high.isnan() & (low <= value)
    assert inside.all(), (got.flatten()[~inside], want[~inside.numpy()])


@pytest.mark.parametrize("dtype", INEXACT, ids=name)
@given(data=st.data())
def test_norms(dtype: torch.dtype, device: str, data: st.DataObject) -> None:
    view = data.draw(views(dtype, special=False))
    dim = data.draw(dims(len(view.sizes)))
    keepdim = data.draw(st.booleans())
    t = view.build(device)
    n = in_walking_order(t, dim).shape[1]
    for order in (*OF_THEIR_OWN, data.draw(st.sampled_from(GENERAL))):
        if n == 0 and (order < 0 or math.isinf(order)):
            continue
        got = ops.norm(t, order, dim, keepdim)
        assert got.dtype == dtype.to_real()
        assert list(got.shape) == result_shape(t.shape, dim, keepdim)
        assert got.is_contiguous()
        check(got, t, order, dim, dtype.to_real())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", INEXACT, ids=name)
def test_special_values(dtype: torch.dtype, order: float, device: str) -> None:
    inf, nan = math.inf, math.nan
    rows = [[1, inf], [-inf, 2], [0, -0.0], [nan, 1], [1, nan], [-3, 3]]
    wants = {
        0: [2, 2, 0, 2, 2, 2],
        1: [inf, inf, 0, nan, nan, 6],
        2: [inf, inf, 0, nan, nan, 18**0.5],
        inf: [inf, inf, 0, nan, nan, 3],
        -inf: [1, 2, 0, nan, nan, 3],
        3: [inf, inf, 0, nan, nan, 54 ** (1 / 3)],
        0.5: [inf, inf, 0, nan, nan, 12],
        40: [inf, inf, 0, nan, nan, 3 * 2 ** (1 / 40)],
        -1: [1, 2, 0, nan, nan, 1.5],
        -2.5: [1, 2, 0, nan, nan, 3 * 2**-0.4],
    }
    if dtype == torch.float8_e4m3fn:  # has no infinity
        rows, wants = rows[2:], {o: w[2:] for o, w in wants.items()}
    t = torch.tensor(rows).to(dtype)
    want = torch.tensor(wants[order]).to(dtype.to_real())
    for x, dim in ((t, 1), (t.t().contiguous(), 0)):
        got = ops.norm(x.to(device), order, dim).cpu().double()
        rtol = 1e-6 if order in GENERAL else 1e-7
        torch.testing.assert_close(got, want.double(), rtol=rtol, atol=0, equal_nan=True)


# One value of each binade, and what lies just inside the ends of the dtype.
def binades(dtype: torch.dtype) -> list[float]:
    info = torch.finfo(dtype)
    smallest = float(torch.tensor(1).to(torch.uint8).view(dtype)) if dtype.itemsize == 1 else None
    if smallest is None:
        integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
        smallest = torch.tensor(1, dtype=integer).view(dtype).item()
    first, last = round(math.log2(smallest)), math.frexp(info.max)[1] - 1
    values = [2.0**e for e in range(first, last + 1)]
    return values + [1.75 * v for v in values if 1.75 * v <= info.max and v >= 4 * smallest]


@pytest.mark.parametrize("n", [1, 2, 3, 33, 1000, 5000])
@pytest.mark.parametrize("dtype", INEXACT, ids=name)
def test_norms_neither_overflow_nor_underflow(dtype: torch.dtype, n: int, device: str) -> None:
    """Rows of one magnitude, for every magnitude whose norm the dtype has; rows that mix two."""
    real = dtype.to_real()
    values = torch.tensor(binades(real), dtype=torch.float64)
    values = values[values < torch.finfo(real).max / 4 / math.sqrt(n)]
    rows = values[:, None].repeat(1, n)
    mixed = rows.clone()
    mixed[:, n // 2 :] = rows.flip(0)[:, n // 2 :]
    signs = generator("binades", name(dtype), n).choice([-1.0, 1.0], n)
    t = torch.cat([rows, mixed]) * torch.from_numpy(signs)
    t = t.to(real)
    if dtype.is_complex:
        t = torch.complex(t, -t)
    # Powers in long double take their time.
    for order in (2, *(GENERAL if n <= 33 else [])):
        for x, dim in ((t, 1), (t.t().contiguous(), 0)):
            got = ops.norm(x.to(device), order, dim)
            check(got, x, order, dim, real)
        if order == 2:
            assert got.double().isfinite().all()
            assert (got.double() > 0).all()


@pytest.mark.parametrize("dtype", INEXACT, ids=name)
@pytest.mark.parametrize("order", ORDERS)
def test_a_wider_dtype_converts_first(order: float, dtype: torch.dtype, device: str) -> None:
    rng = generator("wider", name(dtype))
    t = torch.from_numpy(rng.standard_normal((5, 300)))
    t = (torch.complex(t, t.flip(1)) if dtype.is_complex else t).to(dtype)
    wider = torch.complex128 if dtype.is_complex else torch.float64
    got = ops.norm(t.to(device), order, 1, dtype=wider)
    assert got.dtype == torch.float64
    check(got, to_dtype(t, wider), order, 1, torch.float64)
    if dtype.itemsize <= 2:
        check(ops.norm(t.to(device), order, 1, dtype=torch.float32), t, order, 1, torch.float32)


def test_long_norms(device: str) -> None:
    for values in (torch.ones(2**20 + 1) * 1e-30, torch.ones(2**20 + 1) * 1e30):
        for t, dim in ((values, None), (values[:, None].expand(-1, 3).contiguous(), 0)):
            got = ops.norm(t.to(device), 2, dim)
            want = torch.linalg.vector_norm(t.double(), 2, dim)
            torch.testing.assert_close(got.cpu().double(), want, rtol=1e-6, atol=0)
            assert (
                torch.linalg.vector_norm(t, 2, dim).isfinite().logical_not().all()
                or (torch.linalg.vector_norm(t, 2, dim) == 0).all()
            )


@pytest.mark.parametrize("order", [200, 1e5, 1e10, 1e30, 1e300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=name)
def test_large_orders_come_near_the_extremes(order: float, dtype: torch.dtype, device: str) -> None:
    # Of the last two an element is just below a whole number of octaves.
    ordinary = ([1, 2, 4], [4, 2, 1], [1.5, 1.5], [1e-30, 3], [1e30, 1e-30], [2, 0])
    for row in (*ordinary, [0.92014, 0.5], [1.0053, 1.0026, 0.99889]):
        t = torch.tensor(row, device=device).to(dtype)
        largest, smallest = t.double().max().item(), t.double().min().item()
        rtol = (1e-6 if dtype != torch.bfloat16 else 2**-8) + math.expm1(math.log(len(row)) / order)
        assert ops.norm(t, order).item() == pytest.approx(largest, rel=rtol)
        assert ops.norm(t, -order).item() == pytest.approx(smallest, rel=rtol)


@pytest.mark.parametrize("order", [1e-3, -1e-3, 1e-10, 1e-40, 1e-320])
def test_small_orders_of_one_element(order: float, device: str) -> None:
    """Of more elements than one the norm is soon out of range."""
    for value in (3.0, 1e-30, 1e30, 0.0, math.inf):
        t = torch.tensor([value], device=device)
        assert ops.norm(t, order).item() == pytest.approx(t.item(), rel=1e-5)
    pair = torch.ones(2, device=device)
    assert ops.norm(pair, order).item() == (math.inf if order > 0 else 0)


def test_an_order_that_is_not_a_number(device: str) -> None:
    """As torch has it, nothing has the norm 0 all the same."""
    for values in ([1.0, 2.0], []):
        got = ops.norm(torch.tensor(values, device=device), math.nan)
        want = torch.linalg.vector_norm(torch.tensor(values), math.nan)
        torch.testing.assert_close(got.cpu(), want, equal_nan=True)


@pytest.mark.parametrize("order", GENERAL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=name)
def test_general_orders_come_nearer_than_torchs(
    order: float, dtype: torch.dtype, device: str
) -> None:
    """The largest error of many norms, or no more than a place."""
    rng = generator("orders", order)
    t = torch.from_numpy(rng.standard_normal((300, 501)))
    t = torch.complex(t, t.flip(1)).to(dtype) if dtype.is_complex else t.to(dtype)
    want = exact(order, t)
    errors = [
        np.abs(norm(t.to(device), order, 1).cpu().double().numpy() / want - 1).max()
        for norm in (ops.norm, torch.linalg.vector_norm)
    ]
    assert errors[0] <= max(errors[1], torch.finfo(torch.float32).eps)
