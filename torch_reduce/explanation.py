"""What a call would do on a GPU: the planner's answer, without a launch and without a GPU."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torch_reduce.cards import Card, card_of, find_card

__all__ = ["Explanation", "explain"]

COUNTER_BYTES = 4
WIDTH = 100


@dataclass(frozen=True)
class Explanation:
    """How a call runs on a card. Print it."""

    op: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    """Of the input."""
    dim: tuple[int, ...] | None
    card: Card
    family: str
    """Which kernel: ``rows_warp``, ``rows_block``, ``thin``, ``tiles`` (docs/performance.md), or
    ``nothing`` for a result without elements."""
    reason: str
    """Why this family, in a sentence."""
    supported: bool
    """Whether the call runs at all: False for more than 32 axes that do not merge."""
    order: str
    """The order of combination (docs/order.md): a ``tree``, ``lanes`` of one leaf, ``leaves`` of
    lanes, or ``any`` where every order gives the same bits."""
    lanes: int
    """Of a leaf."""
    leaves: int
    """Of one reduction."""
    leaf_elements: int
    """Of every leaf but the last, which takes the rest."""
    num_outputs: int
    length: int
    """Elements of one reduction."""
    kept: tuple[tuple[int, int], ...]
    """Size and stride of the kept axes, after axes that walk like one were merged."""
    reduced: tuple[tuple[int, int], ...]
    """The same of the reduced axes."""
    launches: int
    grid: int
    """Blocks."""
    block: int
    """Threads of a block."""
    cluster: int
    """Blocks that meet in shared memory; 1 without clusters."""
    load_bytes: int
    """What a thread loads at once."""
    shared_bytes: int
    """Shared memory of a block, beside what the kernel declares itself."""
    scratch_bytes: int
    """Partial results and counters in memory that blocks leave for one another."""
    bytes_read: int
    """The elements, each once, however often a stride of 0 repeats it."""
    bytes_written: int
    """The result."""
    plan: Mapping[str, int | bool] = field(repr=False, hash=False)
    """Everything that the planner decided, by the names it has in ``csrc/core/plan.h``."""

    @property
    def floor_us(self) -> float | None:
        """The time in which memory moves these bytes; None if the card's speed is not known."""
        speed = self.card.gb_per_s
        return None if speed is None else (self.bytes_read + self.bytes_written) / (speed * 1e3)

    @property
    def fits_l2(self) -> bool:
        """Whether the input may still be in the L2 cache when it is read again."""
        return self.bytes_read <= self.card.l2_bytes

    def __str__(self) -> str:
        rows = [
            ("family", self.family),
            ("work", f"{_count(self.num_outputs, 'result')} of {_count(self.length, 'element')}"),
            ("kept", _axes(self.kept)),
            ("reduced", _axes(self.reduced)),
            ("order", self._order_text()),
            ("launches", str(self.launches)),
        ]
        if self.launches:
            rows += [
                ("grid", self._grid_text()),
                ("loads", f"{self.load_bytes} B a thread at once"),
                ("shared", _bytes(self.shared_bytes)),
                ("scratch", _bytes(self.scratch_bytes)),
            ]
        moved = f"{_bytes(self.bytes_read)} read, {_bytes(self.bytes_written)} written"
        rows += [("bytes", moved), ("floor", self._floor_text())]
        where = "" if self.dim is None else f" over dim {', '.join(map(str, self.dim))}"
        dtype = str(self.dtype).removeprefix("torch.")
        shape = " x ".join(map(str, self.shape)) or "scalar"
        lines = [f"{self.op} of {shape} {dtype}{where}, on {self.card.name}"]
        lines += [f"  {name:<9} {text}" for name, text in rows]
        return "\n".join([*lines, textwrap.fill(self.reason, WIDTH)])

    def _order_text(self) -> str:
        if self.order == "any":
            return "any (the result has the same bits in every order)"
        if self.order == "tree":
            return f"tree: {_count(self.lanes, 'lane')}, one element each, folded in halves"
        one_leaf = f"lanes: {_count(self.lanes, 'lane')} folded in halves"
        if self.leaves == 1:
            return one_leaf
        return (
            f"leaves: {self.leaves} of {_count(self.leaf_elements, 'element')} each, "
            f"{_count(self.lanes, 'lane')} a leaf, all folded in halves"
        )

    def _grid_text(self) -> str:
        text = f"{_count(self.grid, 'block')} of {self.block} threads"
        if self.cluster > 1:
            text += f", in clusters of {self.cluster}"
        return text + f"; the card has {self.card.num_sms} multiprocessors"

    def _floor_text(self) -> str:
        if self.floor_us is None:
            return "the speed of this card's memory is not known"
        text = f"{_microseconds(self.floor_us)} at {self.card.gb_per_s:g} GB/s"
        if self.card.gb_per_s_source:
            text += f" ({self.card.gb_per_s_source})"
        return text + ("; less where the L2 cache still has the input" if self.fits_l2 else "")


def explain(
    op: str,
    self: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    device: str | torch.device | Card | None = None,
) -> Explanation:
    """What ``torch.ops.gpureduce.<op>(self, dim, keepdim, dtype=dtype)`` would do on a card.

    Nothing is read and nothing is launched: `self` may be on any device, and a ``meta`` tensor may
    have any size.

    Args:
        op: The name of the op, ``"sum"`` say.
        self: The tensor, of a dtype the op takes. What is not on a CUDA device is explained as if
            its storage were copied to one.
        dim: What is reduced; all dimensions if None.
        keepdim: Whether reduced dimensions stay; it changes the shape of the result alone.
        dtype: For the ops that have it.
        device: A CUDA device, a :class:`Card`, or the name of a known one, such as ``"H200"``
            (:data:`torch_reduce.cards.CARDS` has them all). By default the tensor's own device if
            that is a CUDA device, else the current one.

    Raises:
        ValueError: If there is no such op or card, or no card at all to explain the call for.
        IndexError, RuntimeError, TypeError: What the op itself raises for such arguments.

    >>> print(torch_reduce.explain("sum", torch.empty(4096, 100, device="meta"), 1, device="H200"))
    sum of 4096 x 100 float32 over dim 1, on H200
      family    rows_warp
      ...
    """
    card = _resolve_card(self, device)
    dims = [dim] if isinstance(dim, int) else None if dim is None else list(dim)
    text = torch.ops.gpureduce.explain(
        self,
        op,
        dims,
        dtype=dtype,
        num_sms=card.num_sms,
        compute_major=card.compute_capability[0],
        max_shared_bytes=card.max_shared_bytes,
        max_blocks=card.max_blocks,
    )
    found: dict[str, Any] = json.loads(text)
    plan = found["plan"]
    scratch = plan["partial_bytes"] + COUNTER_BYTES * plan["num_counters"]
    return Explanation(
        op=op,
        shape=tuple(self.shape),
        dtype=self.dtype,
        dim=None if not dims else tuple(d + self.dim() if d < 0 else d for d in dims),
        card=card,
        family=found["family"],
        reason=found["reason"],
        supported=found["supported"],
        order=found["order"],
        lanes=plan["order_lanes"],
        leaves=plan["num_leaves"],
        leaf_elements=plan["leaf_elements"],
        num_outputs=found["num_outputs"],
        length=found["length"],
        kept=_pairs(found["kept"]),
        reduced=_pairs(found["reduced"]),
        launches=int(found["family"] != "nothing"),
        grid=plan["num_blocks"],
        block=plan["threads"],
        cluster=plan["cluster"] or 1,
        load_bytes=found["load_bytes"],
        shared_bytes=plan["shared_bytes"],
        scratch_bytes=scratch,
        bytes_read=found["bytes_read"],
        bytes_written=_result_bytes(op, self, dim, keepdim, dtype),
        plan=plan,
    )


def _resolve_card(tensor: Tensor, device: str | torch.device | Card | None) -> Card:
    if isinstance(device, Card):
        return device
    if device is None:
        if tensor.is_cuda:
            return card_of(tensor.device)
        if not torch.cuda.is_available():
            raise ValueError(
                "device: there is no CUDA device here, so expected the name of a card to explain "
                'the call for, such as "H200"'
            )
        return card_of(torch.device("cuda"))
    if isinstance(device, str) and not device.startswith("cuda"):
        return find_card(device)
    return card_of(torch.device(device))


def _result_bytes(
    op: str,
    tensor: Tensor,
    dim: int | Sequence[int] | None,
    keepdim: bool,
    dtype: torch.dtype | None,
) -> int:
    """Asked of the op itself, on a tensor without data: it raises what the call would raise."""
    arguments: dict[str, Any] = {}
    if dim is not None:
        arguments["dim"] = dim
    if keepdim:
        arguments["keepdim"] = True
    if dtype is not None:
        arguments["dtype"] = dtype
    shape = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    result = getattr(torch.ops.gpureduce, op)(shape, **arguments)
    results = [result] if isinstance(result, Tensor) else result
    return sum(r.numel() * r.element_size() for r in results)


def _pairs(axes: list[list[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((size, stride) for size, stride in axes)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def _axes(axes: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"{size} (stride {stride})" for size, stride in axes) or "–"


def _microseconds(time: float) -> str:
    if time < 0.01:
        return "under 0.01 µs"
    return f"{time:.0f} µs" if time >= 1000 else f"{time:.3g} µs"


def _bytes(number: int) -> str:
    if number < 2**10:
        return f"{number} B"
    power = min(int(math.log2(number)) // 10, 5)
    return f"{number / 2 ** (10 * power):.4g} {'KMGTP'[power - 1]}iB"
