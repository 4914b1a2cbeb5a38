"""Hypothesis strategies for tensors with any geometry, and for what to reduce of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from dtypes import is_inexact
from hypothesis import strategies as st
from tensors import generator, some_numbers

# Of one view, and of the storage behind it.
MOST_ELEMENTS, MOST_STORED = 6000, 100_000


@dataclass(frozen=True)
class View:
    """A window into a storage. Slices, steps, transposes, expansions and overlaps are all of them
    sizes, strides and an offset; so a failing example prints itself.
    """

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    seed: int
    special: bool

    @property
    def stored(self) -> int:
        if 0 in self.sizes:
            return self.offset
        spans = ((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))
        return self.offset + 1 + sum(spans)

    def storage(self) -> torch.Tensor:
        rng = generator("view", self.seed)
        values = some_numbers(rng, (self.stored,), self.dtype, -3, 4)
        if self.special and is_inexact(self.dtype):
            wide = values.to(torch.complex128 if self.dtype.is_complex else torch.float64)
            for value in (math.nan, math.inf, -math.inf, -0.0):
                wide[torch.from_numpy(rng.random(self.stored) < 0.02)] = value
            values = wide.to(self.dtype)
        elif self.special and self.dtype == torch.bool:
            # A byte other than 0 and 1 is true too.
            values = torch.from_numpy(rng.integers(0, 4, self.stored, dtype="uint8"))
            values = values.view(torch.bool)
        return values

    def build(self, device: str) -> torch.Tensor:
        return self.storage().to(device).as_strided(self.sizes, self.strides, self.offset)

    def like(self, dtype: torch.dtype, device: str) -> torch.Tensor:
        """Zeros in the same geometry."""
        storage = torch.zeros(self.stored, dtype=dtype, device=device)
        return storage.as_strided(self.sizes, self.strides, self.offset)


SIZES = st.sampled_from([0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64, 70, 130, 600, 2100])


@st.composite
def views(draw: st.DrawFn, dtype: torch.dtype, special: bool = True) -> View:
    sizes: list[int] = []
    for size in draw(st.lists(SIZES, max_size=5)):
        # A size of 0 counts as 1: there may be as many results as the other sizes make.
        others = math.prod(max(1, n) for n in sizes)
        sizes.append(size if others * size <= MOST_ELEMENTS else 1)
    strides = [0] * len(sizes)
    if draw(st.booleans()):
        # As it lies in memory after transposing, stepping, slicing and expanding a dense tensor.
        distance = 1
        for d in draw(st.permutations(range(len(sizes)))):
            if draw(st.sampled_from([False] * 5 + [True])):
                continue
            distance *= draw(st.sampled_from([1, 1, 1, 2, 3]))
            strides[d] = distance
            distance *= max(1, sizes[d])
            distance += draw(st.sampled_from([0, 0, 0, 1, 5]))
    else:
        # Overlaps, equal strides, any order.
        strides = [draw(st.sampled_from([0, 1, 1, 2, 3, 4, 8, 17, 64])) for _ in sizes]
    offset = draw(st.sampled_from([0, 0, 1, 2, 3, 5, 7, 8, 100]))
    seed = draw(st.integers(0, 2**16))
    view = View(dtype, tuple(sizes), tuple(strides), offset, seed, special and draw(st.booleans()))
    if view.stored > MOST_STORED:
        view = View(dtype, view.sizes, (1,) * len(sizes), offset, seed, view.special)
    return view


def one_dim(ndim: int) -> st.SearchStrategy[int | None]:
    """None or a dim, from either end; 0 and -1 are dims of a 0-d tensor."""
    return st.none() | st.integers(-max(ndim, 1), max(ndim, 1) - 1)


@st.composite
def dims(draw: st.DrawFn, ndim: int) -> int | list[int] | None:
    """All that a list-of-dims argument may be."""
    form = draw(st.sampled_from(["one", "one", "list", "list", "empty"]))
    if form == "one":
        return draw(one_dim(ndim))
    if form == "empty" or ndim == 0:
        return []
    chosen = draw(st.permutations(range(ndim)))[: draw(st.integers(1, ndim))]
    return [d - ndim if draw(st.booleans()) else d for d in chosen]
