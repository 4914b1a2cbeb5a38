"""Variances, standard deviations and the statistics that come with them: against long double, on
inputs on which they cancel, overflow and underflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import references
import torch
from dtypes import FLOATS, INEXACT, SPREADS, accumulator, name, to_dtype
from hypothesis import given
from hypothesis import strategies as st
from numpy_walk import Dims, combine, expected, in_walking_order, result_shape
from tensors import assert_same_bits, generator, one_nan, some_numbers
from views import dims, views

import torch_reduce

ops = torch.ops.gpureduce

f32, f64, bf16 = torch.float32, torch.float64, torch.bfloat16


def real_parts(t: torch.Tensor) -> list[np.ndarray]:
    parts = [t.real, t.imag] if t.is_complex() else [t]
    return [references.long_values(part) for part in parts]


def exact(rows: torch.Tensor) -> tuple[np.ndarray, list[np.ndarray]]:
    """The sum of squared distances from the mean, and the mean, in long double."""
    parts = real_parts(rows)
    n = rows.shape[1]
    means = [part.sum(1) / n for part in parts]
    squares = sum(np.square(p - m[:, None]).sum(1) for p, m in zip(parts, means, strict=True))
    return np.asarray(squares), means


def check(t: torch.Tensor, dim: Dims, device: str, correction: float = 1) -> None:
    """Each result within the bounds that docs/accuracy.md derives, for finite elements."""
    rows = in_walking_order(t, dim).cpu()
    n = rows.shape[1]
    acc = accumulator(t.dtype).to_real()
    u = torch.finfo(acc).eps / 2
    # A square has three roundings more than the additions it goes through (of complex numbers
    # four), and a leaf's sums lose at most a factor of 16 to cancellation.
    gamma = references.relative_bound(n, t.element_size(), acc, wide_lane=True) + 4 * u
    with np.errstate(all="ignore"):
        squares, means = exact(rows)
        variance = squares / (n - correction)
        for op, want, relative in (
            ("var", variance, 48 * gamma + 2 * u),
            ("std", np.sqrt(variance), 24 * gamma + 2 * u),
        ):
            got = getattr(ops, op)(t.to(device), dim, correction=correction)
            assert got.dtype == t.dtype.to_real()
            within(got, want, relative * want)
            both = getattr(ops, f"{op}_mean")(t.to(device), dim, correction=correction)
            assert_same_bits(both[0], got)
            off = gamma * np.sqrt(squares / n) * 4
            parts = [both[1].real, both[1].imag] if t.is_complex() else [both[1]]
            for part, mean in zip(parts, means, strict=True):
                within(part, mean, off + 2 * u * np.abs(mean))


def within(got: torch.Tensor, want: np.ndarray, off: np.ndarray) -> None:
    """Rounded to the result's dtype, or a place of the accumulator's subnormal numbers away."""
    wide = np.float64 if got.dtype == f64 else np.float32
    off = off + 2 * np.finfo(wide).smallest_subnormal
    with np.errstate(over="ignore"):
        ends = [torch.from_numpy((want + sign * off).astype(wide)) for sign in (-1, 1)]
    low, high = (to_dtype(end, got.dtype).reshape(got.shape) for end in ends)
    references.Interval(low, high).check(got)


@pytest.mark.parametrize("dtype", INEXACT, ids=name)
@given(data=st.data())
def test_any_view(dtype: torch.dtype, device: str, data: st.DataObject) -> None:
    view = data.draw(views(dtype))
    dim = data.draw(dims(len(view.sizes)))
    keepdim = data.draw(st.booleans())
    t = view.build(device)
    for op in SPREADS:
        got = getattr(ops, op)(t, dim, keepdim=keepdim)
        assert_same_bits(got, expected(op, t, dim, keepdim))
        both = getattr(ops, f"{op}_mean")(t, dim, keepdim=keepdim)
        assert_same_bits(both[0], got)
        assert list(both[1].shape) == result_shape(t.shape, dim, keepdim)
    mean = ops.var_mean(t, dim, keepdim=keepdim)[1]
    assert_same_bits(mean, expected("mean_of_moments", t, dim, keepdim))


def noise(n: int, *key: object) -> torch.Tensor:
    return torch.from_numpy(generator("noise", n, *key).standard_normal(n))


def with_first(values: torch.Tensor, *first: float) -> torch.Tensor:
    values = values.clone()
    values[: len(first)] = torch.tensor(first, dtype=values.dtype)[: len(values)]
    return values


def one_away(n: int) -> torch.Tensor:
    """All are one ulp of float32 above 1, but the first."""
    return with_first(torch.full((n,), 1 + 2.0**-23, dtype=f64), 1.0)


def cancelling_pairs(n: int) -> torch.Tensor:
    """Large numbers of which nothing is left where lanes are folded, so that the small ones, and
    what they are measured from, make the mean.
    """
    values = with_first(1e-19 * noise(n), *[1e-10] * 8)
    large = 1e28 * noise(32)[: max(0, n - 136)]
    values[8 : 8 + len(large)] = large
    values[136 : 136 + len(large)] = -large
    return values


# In float64, and rounded to float32: what a formula in one pass loses, what overflows on the way.
HARD: dict[str, Callable[[int], torch.Tensor]] = {
    "normal": noise,
    "offset 1e4": lambda n: 1e4 + noise(n),
    "offset 1e6": lambda n: 1e6 + noise(n),
    "offset -1e8": lambda n: -1e8 + 100 * noise(n),
    "first is 1e3": lambda n: with_first(noise(n), 1e3),
    "first ones are 1e3": lambda n: with_first(noise(n), 1e3, 1e3, 1e3),
    "first is 1e30": lambda n: with_first(1e4 + noise(n), 1e30),
    "first is 0": lambda n: with_first(1e5 + noise(n), 0),
    "first is the largest": lambda n: with_first(noise(n), 3.4e38),
    "zeros, then 1e4": lambda n: torch.where(torch.arange(n) < n // 2, 0.0, 1e4 + noise(n)),
    "wide range": lambda n: noise(n) * torch.exp2(torch.arange(n) % 60.0 - 30),
    "constant": lambda n: torch.full((n,), 0.1, dtype=f64),
    "constant 1e10": lambda n: torch.full((n,), 1e10, dtype=f64),
    "one ulp": one_away,
    "two values": lambda n: torch.where(torch.arange(n) % 2 == 0, 1.1e20, 0.9e20).double(),
    "1e30": lambda n: 1e30 * noise(n),
    "near overflow": lambda n: 5e37 * noise(n),
    "nearly constant, near overflow": lambda n: 3e38 * (1 + 1e-6 * noise(n)),
    "one sign, near overflow": lambda n: 3e38 * (1 - 0.3 * noise(n).abs().clamp(max=1)),
    "1e-15": lambda n: 1e-15 * noise(n),
    "1e-25": lambda n: 1e-25 * noise(n),
    "1e-25 beside an offset": lambda n: 1e-20 + 1e-25 * noise(n),
    "1e-38": lambda n: 1e-38 * noise(n),
    "subnormal": lambda n: 1e-42 * noise(n),
    "a cancelling pair": lambda n: with_first(torch.zeros(n, dtype=f64), 0, 1e-30, -1e-30),
    "a small mean, pairs that cancel": lambda n: cancelling_pairs(n),
    "small ones, then large ones": lambda n: noise(n) * (1e30 ** (torch.arange(n) // 5000 % 2)),
}
LENGTHS = [2, 3, 5, 33, 300, 4097, 6145, 24577, 100003]


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("label", HARD)
def test_hard_inputs(label: str, n: int, device: str) -> None:
    t = HARD[label](n).to(f32)
    check(t, None, device)
    check(torch.stack([t, t.flip(0), t.roll(1)], 1), 0, device)
    for op in SPREADS:
        want = expected(op, t)
        for x, dim in ((t, None), (t.repeat(3, 1), 1), (t[:, None].repeat(1, 5), 0)):
            got = getattr(ops, op)(x.to(device), dim)
            assert_same_bits(got, want.expand(got.shape))
    mean = ops.var_mean(t.to(device), None)[1]
    assert_same_bits(mean, expected("mean_of_moments", t))


@pytest.mark.parametrize("dtype", INEXACT, ids=name)
@pytest.mark.parametrize("n", [2, 33, 1000, 24577])
def test_every_dtype(dtype: torch.dtype, n: int, device: str) -> None:
    for offset, spread in ((0, 1), (16, 4) if dtype.itemsize == 1 else (100, 1)):
        values = offset + spread * noise(n, name(dtype))
        if dtype.is_complex:
            values = torch.complex(values, values.flip(0))
        t = values.to(dtype)
        check(t, None, device)
        check(t[:, None].expand(n, 3), 0, device)


@pytest.mark.parametrize("correction", [0, 1, 2, 0.5, -3, True, None])
@pytest.mark.parametrize("dtype", [f32, f64, torch.complex64], ids=name)
def test_corrections(correction: float | None, dtype: torch.dtype, device: str) -> None:
    t = some_numbers(generator("correction"), (5, 40), dtype, -2, 2)
    rtol = 1e-5 if dtype != f64 else 1e-13
    for op in SPREADS:
        for dim in (None, 0, [1], [0, 1]):
            got = getattr(ops, op)(t.to(device), dim, correction=correction)
            want = getattr(torch, op)(t, dim, correction=correction)
            torch.testing.assert_close(got.cpu(), want, rtol=rtol, atol=0)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning")
@pytest.mark.parametrize(
    ("values", "correction"),
    [
        ([], 1),
        ([], 0),
        ([], -3),
        ([2.0], 1),
        ([2.0], 0),
        ([2.0, 2.0], 2),
        ([2.0, 3.0], 2),
        ([2.0, 3.0], 5),
        ([2.0, 3.0], math.inf),
        ([2.0, 3.0], -math.inf),
        ([2.0, 3.0], math.nan),
        ([1.0, math.inf], 1),
        ([-math.inf, math.inf], 1),
        ([math.inf, math.inf], 1),
        ([math.nan, 1.0], 1),
        ([1.0, math.nan, math.inf], 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [f32, f64, bf16, torch.float16], ids=name)
def test_ends_are_torchs(
    values: list[float], correction: float, dtype: torch.dtype, device: str
) -> None:
    """No freedom, nothing at all, infinities, NaN. The mean is that of torch.mean, also where
    infinities make torch.var_mean's NaN.
    """
    for t, dim in ((torch.tensor(values), None), (torch.tensor(values).repeat(3, 1), 1)):
        t = t.to(dtype)
        for op in SPREADS:
            want = one_nan(getattr(torch, op)(t, dim, correction=correction))
            got, mean = getattr(ops, f"{op}_mean")(t.to(device), dim, correction=correction)
            assert_same_bits(getattr(ops, op)(t.to(device), dim, correction=correction), want)
            assert_same_bits(got, want)
            assert_same_bits(mean, one_nan(torch.mean(t, dim)))


def test_two_close_values_do_not_cancel(device: str) -> None:
    pair = torch.tensor([2281.5, 2281.25], device=device)
    for t, dim in (
        (pair, None),
        (pair[:, None], 0),
        (pair[:, None].repeat(1, 10007), 0),
        (pair.repeat(10007, 1), 1),
    ):
        for got in (ops.var(t, dim), ops.var_mean(t, dim)[0], ops.stats(t, dim)[3]):
            assert got.unique().tolist() == [0.03125]


def test_a_variance_near_the_largest_number(device: str) -> None:
    values = torch.tensor([1.1e20, 0.9e20]).repeat(500)
    for t, dim in (
        (values, None),
        (values[:, None].repeat(1, 7), 0),
        (values.repeat(7, 1), 1),
    ):
        variance, deviation = ops.var(t.to(device), dim), ops.std(t.to(device), dim)
        torch.testing.assert_close(
            variance.cpu(), torch.full(variance.shape, 1.00100e38), rtol=1e-5, atol=0
        )
        torch.testing.assert_close(
            deviation.cpu(), torch.full(variance.shape, 1.00050e19), rtol=1e-5, atol=0
        )


# stats


def names_and_values(t: torch.Tensor, dim: Dims, keepdim: bool = False) -> dict[str, torch.Tensor]:
    """What torch_reduce.stats must give, but for sum, mean and var."""
    # As one dim of the reduced elements in row-major order.
    rows = in_walking_order(t.contiguous(), dim).cpu()
    shape = result_shape(t.shape, dim, keepdim)
    values = rows.double()
    return {
        "count": torch.full(shape, rows.shape[1]),
        "min": values.amin(1).to(t.dtype).reshape(shape),
        "max": values.amax(1).to(t.dtype).reshape(shape),
        "argmin": torch.from_numpy(np.argmin(values.numpy(), 1)).reshape(shape),
        "argmax": torch.from_numpy(np.argmax(values.numpy(), 1)).reshape(shape),
        "num_nan": values.isnan().sum(1).reshape(shape),
        "num_inf": values.isinf().sum(1).reshape(shape),
    }


@pytest.mark.parametrize("dtype", FLOATS, ids=name)
@given(data=st.data())
def test_stats_of_any_view(dtype: torch.dtype, device: str, data: st.DataObject) -> None:
    view = data.draw(views(dtype))
    if 0 in view.sizes:
        return
    dim = data.draw(dims(len(view.sizes)))
    keepdim = data.draw(st.booleans())
    t = view.build(device)
    found = torch_reduce.stats(t, dim, keepdim)
    wide = f64 if dtype == f64 else f32
    for field, want in names_and_values(t, dim, keepdim).items():
        got = getattr(found, field).cpu()
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        torch.testing.assert_close(got.double(), want.double(), rtol=0, atol=0, equal_nan=True)
    rows = to_dtype(in_walking_order(t, dim).cpu(), wide).numpy()
    for field, op in (("var", "var"), ("mean", "mean_of_moments")):
        want = torch.from_numpy(combine(op, rows, t.element_size(), dtype))
        assert_same_bits(getattr(found, field).flatten(), one_nan(want))
    assert found.sum.dtype == found.mean.dtype == found.var.dtype == wide
    if dtype in (f32, f64):
        assert_same_bits(found.var, ops.var(t, dim, keepdim=keepdim))
    # The mean is rounded once, and so is the product with the count.
    product = found.mean.double() * found.count
    u = torch.finfo(wide).eps
    torch.testing.assert_close(found.sum.double(), product, rtol=u, atol=1e-40, equal_nan=True)


@pytest.mark.parametrize("shape", [(5, 7, 11), (2, 300, 9), (40, 3, 50)])
def test_positions_count_over_the_reduced_dims(shape: tuple[int, ...], device: str) -> None:
    t = some_numbers(generator("positions", shape), shape, f32, -2, 2).to(device)
    for x in (t, t.permute(2, 0, 1), t.transpose(0, 1)[::2]):
        for dim in (None, 0, [0, 2], [2, 1], [0, 1, 2]):
            found = ops.stats(x, dim)
            want = names_and_values(x, dim)
            assert torch.equal(found[6].cpu(), want["argmin"])
            assert torch.equal(found[7].cpu(), want["argmax"])
    assert ops.stats(t)[7].item() == ops.argmax(t).item()


@pytest.mark.parametrize("n", [1, 5, 33, 300, 4097, 70001])
def test_stats_see_the_first_nan_and_every_infinity(n: int, device: str) -> None:
    t = torch.arange(float(n))
    t[n // 2 :: 3] = math.nan
    t[n // 3] = -math.inf
    t[0] = math.inf
    for x, dim in ((t, None), (t.repeat(3, 1), 1), (t[:, None].repeat(1, 3), 0)):
        found = torch_reduce.stats(x.to(device), dim)
        num_nan, num_inf = int(t.isnan().sum()), int(t.isinf().sum())
        assert set(found.num_nan.flatten().tolist()) == {num_nan}
        assert set(found.num_inf.flatten().tolist()) == {num_inf}
        if num_nan:
            first = int(t.isnan().int().argmax())
            assert set(found.argmin.flatten().tolist()) == {first}
            assert set(found.argmax.flatten().tolist()) == {first}
            for value in (found.sum, found.mean, found.var, found.min, found.max):
                assert value.isnan().all()


def test_stats_of_a_0d_tensor(device: str) -> None:
    for dim in (None, 0, -1, []):
        found = torch_reduce.stats(torch.tensor(-2.5, device=device), dim)
        numbers = [value.item() for value in found]
        assert numbers[:3] == [1, -2.5, -2.5]
        assert math.isnan(numbers[3])
        assert numbers[4:] == [-2.5, -2.5, 0, 0, 0, 0]
