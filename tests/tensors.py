"""Test data and what it is compared with: values whose sum shows the order, layouts of them,
comparison to the bit.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from dtypes import is_inexact, name

SEED = 0  # --data-seed
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def generator(*key: object) -> np.random.Generator:
    """Random numbers that depend on the seed of the run and on `key`, and on no other test."""
    return np.random.default_rng([SEED, zlib.crc32(repr(key).encode())])


def bits_of(t: torch.Tensor) -> torch.Tensor:
    """The bits of each element, or of each half of a complex one, as integers on the CPU."""
    t = t.detach().cpu()
    t = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t).contiguous()
    return t.view(BITS[t.element_size()])


def one_nan(t: torch.Tensor) -> torch.Tensor:
    """`t` on the CPU, with each NaN replaced by the one that sums become: quiet, positive."""
    t = t.detach().cpu()
    if t.is_complex():
        return torch.complex(one_nan(t.real), one_nan(t.imag))
    if not t.dtype.is_floating_point:
        return t
    nan = bits_of(torch.tensor(math.nan, dtype=torch.float64).to(t.dtype))
    return torch.where(t.isnan(), nan, bits_of(t)).view(t.dtype)


def assert_same_bits(got: torch.Tensor, want: torch.Tensor) -> None:
    """Equal shape, dtype and bits: -0.0 is not 0.0, and the signs and payloads of NaNs count."""
    assert got.shape == want.shape and got.dtype == want.dtype, (
        f"{got.dtype} {got.shape}, {want.dtype} {want.shape}"
    )
    got, want = got.detach().cpu(), want.detach().cpu()
    same = bits_of(got) == bits_of(want)
    if not bool(same.all()):
        where = tuple(int(i) for i in (~same).nonzero()[0])
        values = [torch.view_as_real(t) if t.is_complex() else t for t in (got, want)]
        raise AssertionError(
            f"{int((~same).sum())} of {same.numel()} differ, the first at {where}: "
            f"got {values[0][where].item()!r} ({bits_of(got)[where].item():#x}), "
            f"expected {values[1][where].item()!r} ({bits_of(want)[where].item():#x})"
        )


@dataclass(frozen=True)
class Kind:
    """A tensor's dtype, the `dtype=` of the call, and the range of magnitudes, 2^low to 2^high.

    Sums of few values of similar magnitude are exact in every order, and rounding to a narrow
    result hides the order of most others. So magnitudes are spread over more bits than the
    accumulator has, and for a result narrower than the accumulator the elements cancel: they come
    in threes (x, x, -2x), so that a sum is what rounding left over, and one or two elements more.
    (Pairs (x, -x) would not do: in even and odd lanes they round alike, and leave nothing.)
    """

    input: torch.dtype
    dtype: torch.dtype | None = None
    low: int = -20
    high: int = 20
    cancels: bool = False
    positive: bool = False

    def __str__(self) -> str:
        return name(self.input) + (f"-{name(self.dtype)}" if self.dtype else "")


def some_numbers(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype, low: int, high: int
) -> torch.Tensor:
    """Random signs and magnitudes; integers take their whole range."""
    if dtype == torch.bool:
        return torch.from_numpy(rng.integers(0, 2, shape, dtype=np.uint8)).bool()
    if not (dtype.is_floating_point or dtype.is_complex):
        info = np.iinfo(name(dtype))
        return torch.from_numpy(
            rng.integers(info.min, info.max, shape, dtype=name(dtype), endpoint=True)
        )
    if dtype.is_complex:
        real = some_numbers(rng, (*shape, 2), torch.float64, low, high)
        return torch.complex(real[..., 0], real[..., 1]).to(dtype)
    values = np.exp2(rng.uniform(low, high, shape)) * rng.choice([-1.0, 1.0], shape)
    return torch.from_numpy(values).to(dtype)


SEQUENCES = 3


FRESH = (
    3 * 2**15
)  # of so many elements of a sequence, each is drawn; a longer one repeats them shifted


@lru_cache(maxsize=2)
def _fresh(kind: Kind, seed: int) -> torch.Tensor:
    rng, shape = generator("sequences", str(kind)), (SEQUENCES, FRESH)
    if not is_inexact(kind.input):
        return some_numbers(rng, shape, kind.input, kind.low, kind.high)
    wide = torch.complex128 if kind.input.is_complex else torch.float64
    values = some_numbers(rng, shape, wide, kind.low, kind.high)
    if kind.positive:
        values = values.abs()
    if kind.cancels:
        # Rounded first: doubling what is rounded is exact.
        first = values[:, ::3].to(kind.input).to(wide)
        values[:, ::3], values[:, 1::3], values[:, 2::3] = first, first, -2 * first
    return values.to(kind.input)


@lru_cache(maxsize=2)
def _long(kind: Kind, n: int, seed: int) -> torch.Tensor:
    fresh = _fresh(kind, seed)
    # By a multiple of three, so that what cancels stays together.
    index = torch.arange(n)
    index = (index + 978 * (index // FRESH)) % FRESH
    bits = BITS.get(fresh.element_size())
    return fresh[:, index] if bits is None else fresh.view(bits)[:, index].view(kind.input)


def sequences(kind: Kind, n: int) -> torch.Tensor:
    """Three different sequences of n values, (3, n)."""
    return _fresh(kind, SEED)[:, :n] if n <= FRESH else _long(kind, n, SEED)


@dataclass(frozen=True)
class Layout:
    """A way to lay sequences out: one of them along dim `dim` for each result, the k-th being
    number k mod 3.
    """

    label: str
    dim: int
    results: int
    build: Callable[[torch.Tensor], torch.Tensor]

    def __str__(self) -> str:
        return self.label


def _repeat(values: torch.Tensor, results: int) -> torch.Tensor:
    return values[torch.arange(results, device=values.device) % SEQUENCES]


def rows(count: int) -> Layout:
    return Layout(f"{count} rows", 1, count, lambda v: _repeat(v, count).contiguous())


def columns(width: int) -> Layout:
    return Layout(f"{width} columns", 0, width, lambda v: _repeat(v, width).t().contiguous())


def columns_of_wider(width: int, start: int = 1, spare: int = 3) -> Layout:
    """Columns of a matrix whose rows are longer, and begin anywhere."""

    def build(values: torch.Tensor) -> torch.Tensor:
        base = values.new_zeros(values.shape[1], width + spare)
        base[:, start : start + width] = _repeat(values, width).t()
        return base[:, start : start + width]

    return Layout(f"{width} of {width + spare} columns", 0, width, build)


def every(step: int) -> Layout:
    def build(values: torch.Tensor) -> torch.Tensor:
        base = values.new_zeros(SEQUENCES, values.shape[1] * step)
        base[:, ::step] = values
        return base[:, ::step]

    return Layout(f"every {step}th", 1, SEQUENCES, build)


def offset(start: int) -> Layout:
    """A row that begins `start` elements into its storage."""

    def build(values: torch.Tensor) -> torch.Tensor:
        base = values.new_zeros(start + values.shape[1] + 7)
        base[start : start + values.shape[1]] = values[0]
        return base[start : start + values.shape[1]].unsqueeze(0)

    return Layout(f"offset {start}", 1, 1, build)


def pitched(count: int, pitch: int = 1) -> Layout:
    """Rows that are `pitch` elements further apart than they are long, so that each begins at
    another alignment.
    """

    def build(values: torch.Tensor) -> torch.Tensor:
        n = values.shape[1]
        base = values.new_zeros(count, n + pitch)
        base[:, :n] = _repeat(values, count)
        return base[:, :n]

    return Layout(f"{count} rows, pitch +{pitch}", 1, count, build)


def expanded(count: int) -> Layout:
    """One row, seen `count` times through a stride of 0."""
    return Layout(f"expanded to {count}", 1, count, lambda v: v[:1].expand(count, -1))


def middle(outer: int, inner: int) -> Layout:
    """The middle one of three dims."""
    count = outer * inner

    def build(values: torch.Tensor) -> torch.Tensor:
        return _repeat(values, count).reshape(outer, inner, -1).transpose(1, 2).contiguous()

    return Layout(f"{outer} x n x {inner}", 1, count, build)


def lay_out(layout: Layout, values: torch.Tensor, device: str) -> torch.Tensor:
    """Lays three sequences, (3, n), out on a device.

    As integers of the same size where there are some: torch cannot index and copy each of the
    dtypes everywhere.
    """
    values = values.to(device)
    bits = BITS.get(values.element_size())
    if bits is None:
        return layout.build(values)
    return layout.build(values.view(bits)).view(values.dtype)


def sequence_of_result(layout: Layout) -> torch.Tensor:
    """Which sequence each result of a layout sums."""
    index = torch.arange(layout.results) % SEQUENCES
    return torch.zeros_like(index) if layout.label.startswith("expanded") else index


def powers_and_neighbours(first: int, last: int) -> list[int]:
    """2^k - 1, 2^k, 2^k + 1 for the powers in between."""
    return [
        2**k + d for k in range(int(math.log2(first)), int(math.log2(last)) + 1) for d in (-1, 0, 1)
    ]
