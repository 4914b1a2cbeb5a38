"""The planner, without a GPU: every element and output is covered, and every limit is kept, on
several cards. `torch_reduce.explain` asks it; the tensors are on `meta` and have any size.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import torch_reduce
from torch_reduce import Card, Explanation
from torch_reduce.cards import CARDS

H200 = CARDS["H200"]
# The known ones, and one of a single multiprocessor.
CARDS_TO_PLAN_FOR = [*CARDS.values(), dataclasses.replace(H200, name="small", num_sms=1)]


@dataclass(frozen=True)
class Kind:
    """A reduction over an element type: what a lane holds, and how it is read, depend on both."""

    op: str
    dtype: torch.dtype
    convert_to: torch.dtype | None = None


FLOAT = Kind("sum", torch.float32)
ARGMAX = Kind("argmax", torch.float32)
CONVERTED = Kind("sum", torch.float16, torch.float64)
KINDS = [
    FLOAT,
    Kind("sum", torch.bfloat16),
    Kind("sum", torch.int8),
    Kind("mean", torch.float64),
    Kind("sum", torch.float8_e4m3fn),
    Kind("sum", torch.complex128),
    Kind("amax", torch.int16),
    ARGMAX,
    CONVERTED,
    Kind("norm", torch.float32),
    Kind("var", torch.bfloat16),
]


@dataclass(frozen=True)
class Question:
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    reduced: tuple[int, ...]
    """Dims; none of a 0-d tensor."""
    kind: Kind = FLOAT
    offset: int = 0
    """Of the first element in its storage, in elements."""
    card: Card = H200

    def ask(self) -> Explanation:
        x = torch.empty(0, dtype=self.kind.dtype, device="meta")
        x = x.as_strided(self.sizes, self.strides, self.offset)
        dim: Any = list(self.reduced) or None
        if self.kind.op == "argmax":
            dim = None if len(self.reduced) == len(self.sizes) else self.reduced[0]
        return torch_reduce.explain(
            self.kind.op, x, dim, dtype=self.kind.convert_to, device=self.card
        )

    def takes(self, kind: Kind) -> bool:
        """Whether the op of `kind` can be asked this."""
        if kind.op == "argmax" and len(self.reduced) not in (1, len(self.sizes)):
            return False
        return kind.op not in ("amax", "argmax") or 0 not in self.sizes


def contiguous(*sizes: int) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def shapes() -> list[Question]:
    lengths = [1, 2, 3, 17, 33, 100, 128, 129, 1000, 4096, 8193, 40000, 128256]
    lengths += [2**20 + 1, 2**28, 3 * 2**30, 2**32 + 7]
    counts = [1, 2, 3, 31, 64, 1000, 4097, 2**20, 2**26, 2**28]
    found = []
    for n, m in itertools.product(lengths, counts):
        if n * m > 2**36:
            continue
        found.append(Question((m, n), contiguous(m, n), (1,)))
        found.append(Question((n, m), contiguous(n, m), (0,)))
        found.append(Question((m, n), (2 * n, 2), (1,)))
        found.append(Question((m, n), (0, 1), (1,)))
        found.append(Question((m, n), (8 * n, 1), (1,)))
    found.append(Question((2**33, 4096), (0, 1), (1,)))
    found.append(Question((4096, 2**33), (1, 0), (0,)))
    found.append(Question((64, 256, 56, 56), contiguous(64, 256, 56, 56), (0, 2, 3)))
    found.append(Question((64, 128, 64, 128), contiguous(64, 128, 64, 128), (1, 3)))
    found.append(Question((), (), ()))
    found.append(Question((0, 5), (5, 1), (0,)))
    found.append(Question((5, 0), (1, 1), (0,)))
    rng = random.Random(0)
    for _ in range(300):
        sizes = tuple(rng.choice([1, 2, 3, 5, 8, 16, 33, 100]) for _ in range(rng.randint(1, 6)))
        order = rng.sample(range(len(sizes)), len(sizes))
        strides, step = [0] * len(sizes), 1
        for dim in order:
            strides[dim] = step
            step *= sizes[dim] * rng.choice([1, 1, 1, 2])
        reduced = tuple(d for d in range(len(sizes)) if rng.random() < 0.5)
        found.append(Question(sizes, tuple(strides), reduced or tuple(range(len(sizes)))))
    return found


def on_every_card(questions: list[Question]) -> list[Question]:
    rng = random.Random(1)
    return [
        dataclasses.replace(
            q,
            kind=rng.choice([kind for kind in KINDS if q.takes(kind)]),
            offset=rng.choice([0, 0, 1, 4]),
            card=card,
        )
        for q in questions
        for card in CARDS_TO_PLAN_FOR
    ]


def check_covers_everything(question: Question, e: Explanation) -> None:
    plan = e.plan
    if e.family == "nothing":
        assert e.num_outputs == 0 and e.launches == 0
        return
    # Cap and loop: block b takes items b, b + num_blocks, ..., so that any positive number of
    # blocks covers all.
    assert 1 <= e.grid <= question.card.max_blocks
    assert e.grid == min(plan["num_items"], question.card.max_blocks)
    assert plan["ahead_blocks"] <= e.grid
    if e.num_outputs * e.length * e.dtype.itemsize <= 2**20:
        assert plan["ahead_blocks"] == 0, "nothing is gained"
    leaves, lanes = plan["walked_leaves"], plan["walked_lanes"]
    joined = plan["rows_of_unit"]
    last = ceil_div(e.length, joined) - (leaves - 1) * plan["walked_leaf_elements"]
    assert 0 <= last <= plan["walked_leaf_elements"] * 3 // 2 and last < 2**30
    assert plan["splits"] * plan["leaves_per_split"] >= leaves
    if e.order != "any":
        assert (lanes * joined, leaves) == (e.lanes, e.leaves)
        assert plan["walked_leaf_elements"] * joined == e.leaf_elements
    CHECKS[e.family](e, plan, e.dtype.itemsize)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


Numbers = dict[str, Any]


def check_tiny_rows(e: Explanation, plan: Numbers, item_bytes: int) -> None:
    slots = 16 // item_bytes
    vectors = e.length // math.gcd(e.length, slots)
    rows = vectors * slots // e.length
    assert 1 < e.length < slots and plan["row_stride"] == e.length
    assert e.num_outputs >= rows, "a group at least"
    groups = max(1, 4 // vectors)
    assert plan["num_items"] * e.block * groups >= e.num_outputs // rows
    assert e.block >= e.num_outputs % rows, "a thread for each row that fills no group"


def check_rows_of_tiles(e: Explanation, plan: Numbers) -> int:
    at_once = 32 // plan["threads_per_row"]
    assert plan["rows_per_tile"] % at_once == 0 and e.leaves == 1
    assert plan["num_items"] * (e.block // 32) * plan["rows_per_tile"] >= e.num_outputs
    return int(min(plan["rows_per_tile"], ceil_div(e.num_outputs, at_once) * at_once))


TILE_BYTES, SHIFTED_TILE_BYTES = 256 * 16, 328 * 16


def check_short_rows(e: Explanation, plan: Numbers, item_bytes: int) -> None:
    rows = check_rows_of_tiles(e, plan)
    taken = plan["threads_per_row"] * plan["vectors_per_thread"] * 16
    assert taken == e.length * item_bytes and plan["vectors_per_thread"] <= 8
    assert plan["aligned"] and rows * e.length * item_bytes <= TILE_BYTES
    if plan["row_stride"] > 2 * e.length:
        assert plan["ahead_blocks"] == 0, "what lies between the rows would be read too"


def check_staged_rows(e: Explanation, plan: Numbers, item_bytes: int) -> None:
    rows = check_rows_of_tiles(e, plan)
    vectors = ceil_div(e.length * item_bytes, 16)
    lanes = vectors if e.order == "any" else max(1, e.lanes * item_bytes // 16)
    held = plan["threads_per_row"] * plan["vectors_per_thread"]
    assert held >= min(vectors, lanes) and plan["threads_per_row"] <= 32
    assert plan["vectors_per_thread"] <= (8 if vectors <= lanes else 2)
    stride = plan["row_stride"] * item_bytes
    if stride % 16 == 0:  # one by one, an odd number of vectors apart
        span = rows * (ceil_div(15 + e.length * item_bytes, 16) | 1) * 16
    else:
        span = 15 + (rows - 1) * stride + e.length * item_bytes
    assert span + 16 + 4 <= SHIFTED_TILE_BYTES, "the rows, and what is read behind the last one"


def check_rows_warp(e: Explanation, plan: Numbers, item_bytes: int) -> None:
    rows_at_once = 1 if e.op == "var" else 2  # lanes of one word leave registers for two
    rows = plan["num_items"] * (e.block // 32) * (32 // plan["threads_per_row"]) * rows_at_once
    assert rows >= e.num_outputs and e.leaves == 1
    assert plan["threads_per_row"] * 16 // item_bytes >= e.lanes


def check_rows_leaf(e: Explanation, plan: Numbers, item_bytes: int) -> None:
    at_once = 1 if e.op == "var" else 2
    assert e.leaves <= at_once and plan["num_items"] * at_once >= e.num_outputs * e.leaves
    assert e.block >= 32 * e.leaves, "a warp for each leaf"
    if e.order != "any":
        assert e.block * 16 // item_bytes == e.lanes, "a thread for each 16 bytes of lanes"


def check_rows_block(e: Explanation, plan: Numbers, item_bytes: int) -> None:
    assert plan["num_items"] == e.num_outputs * plan["splits"]
    assert (plan["splits"] - 1) * plan["leaves_per_split"] < e.leaves, "a split without leaves"
    assert not plan["one_wave"] or e.grid <= 8 * e.card.num_sms, "as many as a card holds"
    if e.order != "any":
        assert max(e.block, 32) * 16 // item_bytes >= e.lanes, "a thread for each 16 bytes of lanes"


def check_thin(e: Explanation, plan: Numbers, item_bytes: int) -> None:
    assert plan["num_tiles"] * plan["vector"] >= e.num_outputs
    assert plan["num_items"] * e.block >= plan["num_tiles"], "a thread for each vector"
    if e.order != "any":
        assert e.leaves == 1 and e.length <= e.lanes, "a tree"
        assert plan["lanes_per_thread"] >= e.lanes, "which one thread walks"
    if not plan["aligned"]:
        # A row and the vector behind it are in the tensor, but for the last row.
        assert e.length == 1 or plan["row_stride"] >= 2 * plan["vector"]


def check_columns(e: Explanation, plan: Numbers, item_bytes: int) -> None:
    joined = plan["rows_of_unit"]
    assert plan["splits"] & (plan["splits"] - 1) == 0
    shares = min(plan["splits"], plan["walked_leaves"]) * plan["lane_splits"]
    assert plan["num_items"] == plan["num_tiles"] * shares
    assert plan["lane_splits"] == 1 or plan["leaves_per_split"] == 1
    assert plan["tile_outputs"] <= plan["units"] * plan["vector"]
    assert plan["num_tiles"] * plan["tile_outputs"] >= e.num_outputs * joined
    assert joined == 1 or plan["num_tiles"] == 1
    lanes = plan["lanes_per_thread"] * plan["lanes"] * plan["lane_splits"]
    assert lanes == plan["walked_lanes"] or e.order == "any"
    assert e.block >= plan["units"] * plan["lanes"]
    assert e.block <= (288 if plan["nine_warps"] else 256)
    if e.num_outputs * e.length * item_bytes <= 4 * 2**20:
        assert plan["ahead_blocks"] == 0, "many small pieces, which take long to ask for"
    groups = plan["fold_groups"]
    assert groups & (groups - 1) == 0 and groups <= plan["splits"]
    if plan["num_counters"]:
        assert plan["num_counters"] == plan["num_tiles"] * (1 + (groups if groups > 1 else 0))
    if not plan["aligned"] and joined == 1:
        # A thread's slots are the same outputs in all rows it takes.
        vector, stride = plan["vector"], plan["row_stride"]
        assert (plan["tile_outputs"] + vector) == plan["units"] * vector
        step = plan["lanes"] * plan["lane_splits"]
        assert plan["lanes_per_thread"] == 1 or step * stride % vector == 0
        assert e.length <= plan["walked_lanes"] or plan["walked_lanes"] * stride % vector == 0


def check_tiles(e: Explanation, plan: Numbers, item_bytes: int) -> None:
    assert plan["num_tiles"] * plan["units"] >= e.num_outputs
    assert plan["num_items"] == plan["num_tiles"] * plan["splits"] * plan["lane_splits"]
    assert plan["lanes_per_thread"] * plan["lanes"] * plan["lane_splits"] == plan["walked_lanes"]
    assert e.block >= plan["units"] * plan["lanes"]
    assert plan["lane_splits"] == 1 or plan["splits"] == plan["walked_leaves"]


CHECKS = {
    "tiny_rows": check_tiny_rows,
    "short_rows": check_short_rows,
    "staged_rows": check_staged_rows,
    "rows_warp": check_rows_warp,
    "rows_leaf": check_rows_leaf,
    "rows_block": check_rows_block,
    "segments": check_rows_block,
    "thin": check_thin,
    "columns": check_columns,
    "tiles": check_tiles,
}


def check_keeps_limits(card: Card, e: Explanation) -> None:
    if e.family == "nothing":
        return
    plan = e.plan
    assert e.supported
    assert e.block % 32 == 0 and 32 <= e.block <= (288 if e.family == "columns" else 256)
    least = min(known.max_shared_bytes for known in CARDS.values())
    assert e.shared_bytes <= least, "so that the same plan serves every card"
    assert plan["num_counters"] * 4 <= 32 * 1024, "the counters of a stream"
    assert plan["walked_leaves"] <= 512 + 256, "a warp folds the leaves of a row"
    shares = min(plan["splits"], plan["walked_leaves"]) * plan["lane_splits"] > 1
    if plan["cluster"]:
        assert card.compute_capability >= (9, 0)
        assert shares and 2 <= e.cluster <= 16
        assert e.grid == plan["num_items"], "the blocks of a cluster are there together"
        assert e.grid % e.cluster == 0 and plan["num_counters"] == 0
    else:
        assert e.cluster == 1
        assert (plan["num_counters"] > 0) == shares
        assert shares <= (plan["partial_bytes"] > 0)


def test_plans_cover_all_work_and_keep_all_limits() -> None:
    questions = on_every_card(shapes())
    assert len(questions) > 2000
    families = set()
    for question in questions:
        e = question.ask()
        families.add(e.family)
        try:
            check_covers_everything(question, e)
            check_keeps_limits(question.card, e)
        except AssertionError as error:
            raise AssertionError(f"{question}: {e!r} {e.plan}") from error
    assert families == {"nothing", *CHECKS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.op}-{kind.dtype}")
def test_the_order_is_the_same_on_every_card_and_in_every_layout(kind: Kind) -> None:
    for n in (3, 100, 1000, 8193, 2**20 + 1):
        layouts = [
            Question((n,), (1,), (0,)),
            Question((7, n), (n, 1), (1,)),
            Question((n, 64), (64, 1), (0,)),
            Question((5, n, 3), (3 * n, 3, 1), (1,), offset=1),
        ]
        orders = {
            (e.order, e.lanes, e.leaves, e.leaf_elements)
            for layout, card in itertools.product(layouts, CARDS_TO_PLAN_FOR)
            for e in [dataclasses.replace(layout, kind=kind, card=card).ask()]
        }
        assert len(orders) == 1, (n, orders)


def test_a_row_has_at_most_512_leaves() -> None:
    for n in (2**21, 2**22, 3 * 2**22, 2**28, 2**32, 2**35):
        for length in (n - 1, n, n + 1):
            assert Question((length,), (1,), (0,)).ask().leaves <= 512


def test_the_grid_cap_is_a_loop() -> None:
    card = dataclasses.replace(H200, max_blocks=7)
    for question in (
        Question((10000, 100), (100, 1), (1,), card=card),
        Question((100, 10000), (10000, 1), (0,), card=card),
        Question((10000, 5000), (5000, 1), (1,), card=card),
    ):
        e = question.ask()
        assert e.plan["num_items"] > 7 and e.grid == 7
        check_covers_everything(question, e)


def test_clusters_need_a_card_that_has_them() -> None:
    for card in CARDS.values():
        e = Question((40000,), (1,), (0,), card=card).ask()
        if card.compute_capability >= (9, 0):
            assert e.cluster == e.grid == e.leaves and e.scratch_bytes == 0
        else:
            assert e.cluster == 1 and e.grid > 1 and e.scratch_bytes > 0


def test_vectors_only_where_every_address_is_aligned() -> None:
    def columns(width: int, offset: int = 0, pitch: int | None = None) -> Explanation:
        return Question((1000, width), (pitch or width, 1), (0,), offset=offset).ask()

    wide, odd = columns(64), columns(63)
    assert wide.load_bytes == 16 and wide.plan["rows_of_unit"] == 1
    # Four rows of 63 are 63 vectors.
    assert odd.load_bytes == 16 and odd.plan["rows_of_unit"] == 4
    # Shifted rows are read in vectors all the same, each in its own frame.
    assert wide.plan["aligned"] and odd.plan["aligned"]
    for shifted in (columns(64, offset=1), columns(64, pitch=65)):
        assert shifted.load_bytes == 16 and not shifted.plan["aligned"]


@pytest.mark.parametrize("rows", [1, 500, 1100, 9000, 2**20])
@pytest.mark.parametrize("row_bytes", [24576, 32768, 32784, 36000, 40944, 50000, 2**20])
@pytest.mark.parametrize(
    "kind",
    [Kind("sum", torch.int8), Kind("amax", torch.float16), ARGMAX],
    ids=lambda kind: f"{kind.op}-{kind.dtype}",
)
def test_rows_whose_order_is_free_meet_in_few_places(rows: int, row_bytes: int, kind: Kind) -> None:
    """However many rows there are, and whether a row has one leaf of the order or more."""
    n = row_bytes // kind.dtype.itemsize
    for pitch in (n, n + 1):
        for question in (
            Question((rows, n), (pitch, 1), (1,), kind=kind),
            Question((2, rows, n), (rows * pitch, pitch, 1), (0, 2), kind=kind),
        ):
            if question.takes(kind):
                e = question.ask()
                check_covers_everything(question, e)
                check_keeps_limits(question.card, e)


def test_families() -> None:
    def family(sizes: tuple[int, ...], reduced: tuple[int, ...], **other: Any) -> str:
        strides = other.pop("strides", contiguous(*sizes))
        return Question(sizes, strides, reduced, **other).ask().family

    assert family((1000, 2), (1,)) == "tiny_rows"
    assert family((1000, 96), (1,)) == "short_rows"
    assert family((1000, 100), (1,)) == family((1000, 99), (1,)) == "staged_rows"
    assert family((10, 99), (1,)) == family((1, 501), (1,)) == "staged_rows"
    assert family((10, 99), (1,), strides=(200, 1)) == family((1000, 500), (1,)) == "rows_warp"
    assert family((1000, 2000), (1,)) == "rows_leaf"
    assert family((100000,), (0,)) == "rows_block"
    assert family((8, 16, 64, 64), (0, 2, 3)) == family((8, 16, 49, 11), (0, 2, 3)) == "segments"
    assert family((3, 1000), (0,)) == family((1000, 1), (1,)) == "thin"
    assert family((16, 2**20), (0,)) == family((16, 2**20 + 1), (0,)) == "thin"
    assert family((16, 1000), (0,)) == family((1000, 99), (0,)) == "columns"
    assert family((1000, 2**20), (0,)) == family((100, 2**20 + 1), (0,)) == "columns"
    assert family((1000, 3), (0,)) == family((4, 1000, 60), (1,)) == "columns"
    assert family((1000, 50), (1,), strides=(100, 2)) == "tiles"
    assert family((100000,), (0,), kind=CONVERTED) == "tiles"


def test_rarer_types_have_fewer_kernels() -> None:
    double = Kind("sum", torch.float64)
    assert Question((1000, 1), (1, 1), (1,), kind=double).ask().family == "thin"
    assert (
        Question((8, 16, 49, 11), contiguous(8, 16, 49, 11), (0, 2, 3), kind=double).ask().family
        == "tiles"
    )


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_large_problems_fill_the_card(card: Card) -> None:
    for sizes in ((1, 2**26), (64, 2**20), (8192, 8192), (2**20, 64), (2**22, 16)):
        for dim in (0, 1):
            e = Question(sizes, contiguous(*sizes), (dim,), card=card).ask()
            assert e.grid >= card.num_sms, f"{e!r} {e.plan}"


def test_too_many_axes_are_said() -> None:
    assert not Question((2,) * 40, (1,) * 40, tuple(range(40))).ask().supported
