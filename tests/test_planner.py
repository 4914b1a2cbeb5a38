"""The planner, without a GPU: every element and output is covered, and every limit is kept, on
several cards.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Multiprocessors of an A100, an L40S, an H100 PCIe, an H200 and a B200; and a card of one.
CARDS = [108, 142, 114, 132, 148, 1]
MAX_GRID = 2**31 - 1
# (element bytes, value bytes, tile vector): float32 sum, bfloat16 sum, int8 sum, float64 sum,
# float8 sum, argmax.
KINDS = [(4, 4, 4), (2, 4, 8), (1, 8, 8), (8, 8, 2), (1, 4, 8), (4, 16, 4), (16, 16, 1)]


@dataclass(frozen=True)
class Question:
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    reduced: tuple[int, ...]
    kind: tuple[int, int, int] = KINDS[0]
    reads_rows: bool = True
    indexed: bool = False
    address: int = 0
    num_sms: int = 132
    max_blocks: int = MAX_GRID

    def line(self) -> str:
        def listed(values: tuple[int, ...]) -> str:
            return ",".join(map(str, values)) or "-"

        fields: list[object] = [
            listed(self.sizes),
            listed(self.strides),
            listed(self.reduced),
            *self.kind,
        ]
        fields += [
            int(self.reads_rows),
            int(self.indexed),
            self.address,
            self.num_sms,
            self.max_blocks,
        ]
        return " ".join(map(str, fields))


def contiguous(*sizes: int) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = shutil.which("c++") or shutil.which("g++")
    assert compiler, "the library itself needs a C++ compiler, so the tests may count on one"
    program = tmp_path_factory.mktemp("planner") / "plan_cli"
    sources = [ROOT / "tests/planner/plan_cli.cpp", *sorted((ROOT / "csrc/core").glob("*.cpp"))]
    command = [
        compiler,
        "-std=c++20",
        "-O1",
        "-I",
        str(ROOT / "csrc"),
        *map(str, sources),
        "-o",
        str(program),
    ]
    subprocess.run(command, check=True)

    def ask(questions: list[Question]) -> list[dict[str, Any]]:
        text = "\n".join(q.line() for q in questions) + "\n"
        result = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
        plans = [json.loads(line) for line in result.stdout.splitlines()]
        assert len(plans) == len(questions)
        return plans

    return ask


def shapes() -> list[Question]:
    lengths = [
        1,
        2,
        3,
        17,
        33,
        100,
        128,
        129,
        1000,
        4096,
        8193,
        40000,
        128256,
        2**20 + 1,
        2**28,
        3 * 2**30,
        2**32 + 7,
    ]
    counts = [1, 2, 3, 31, 64, 1000, 4097, 2**20, 2**26, 2**28]
    found = []
    for n, m in itertools.product(lengths, counts):
        if n * m > 2**36:
            continue
        found.append(Question((m, n), contiguous(m, n), (1,)))
        found.append(Question((n, m), contiguous(n, m), (0,)))
        found.append(Question((m, n), (2 * n, 2), (1,)))
        found.append(Question((m, n), (0, 1), (1,)))
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
        found.append(Question(sizes, tuple(strides), reduced, indexed=rng.random() < 0.3))
    return found


def on_every_card(questions: list[Question]) -> list[Question]:
    rng = random.Random(1)
    return [
        Question(
            q.sizes,
            q.strides,
            q.reduced,
            rng.choice(KINDS),
            True,
            q.indexed,
            rng.choice([0, 0, 4, 16]) * 4,
            sms,
        )
        for q in questions
        for sms in CARDS
    ]


def check_covers_everything(question: Question, plan: dict[str, Any]) -> None:
    if plan["family"] == "nothing":
        assert plan["num_outputs"] == 0
        return
    # Cap and loop: block b takes items b, b + num_blocks, ..., so that any positive number of
    # blocks covers all.
    assert 1 <= plan["num_blocks"] <= question.max_blocks
    assert plan["num_blocks"] == min(plan["num_items"], question.max_blocks)
    assert plan["splits"] * plan["leaves_per_split"] >= plan["num_leaves"]
    assert (plan["splits"] - 1) * plan["leaves_per_split"] < plan["num_leaves"], (
        "a split without leaves"
    )
    leaf = plan["leaf_elements"]
    last = plan["length"] - (plan["num_leaves"] - 1) * leaf
    assert 0 <= last <= leaf * 3 // 2 and last < 2**31
    if plan["family"] == "rows_block":
        assert plan["num_items"] == plan["num_outputs"] * plan["splits"]
        lane_slots = plan["threads"] * 16 // question.kind[0]
        assert lane_slots == plan["order_lanes"], "a thread for each 16 bytes of lanes"
    elif plan["family"] == "rows_warp":
        warps = plan["num_items"] * plan["threads"] // 32
        rows_of_warp = 32 // plan["threads_per_row"] * (4 if plan["one_round"] else 1)
        assert warps * rows_of_warp >= plan["num_outputs"]
        assert plan["num_leaves"] == 1
        assert plan["threads_per_row"] * 16 // question.kind[0] >= plan["order_lanes"]
    elif plan["family"] == "thin":
        assert plan["num_units"] * plan["vector"] == plan["num_outputs"]
        assert plan["num_items"] * plan["threads"] * 4 >= plan["num_units"]
        assert plan["length"] <= 4
    else:
        joined = plan["rows_of_unit"]
        assert plan["num_units"] * plan["vector"] == plan["num_outputs"] * joined
        assert plan["length"] % joined == 0 and plan["leaf_elements"] % joined == 0
        assert joined == 1 or (plan["num_tiles"] == 1 and plan["lane_splits"] == 1)
        assert plan["num_tiles"] * plan["units"] >= plan["num_units"]
        assert plan["num_items"] == plan["num_tiles"] * plan["splits"] * plan["lane_splits"]
        assert (
            plan["lanes_per_thread"] * plan["lanes"] * plan["lane_splits"] * joined
            == plan["order_lanes"]
        )
        assert plan["threads"] >= plan["units"] * plan["lanes"]
        assert plan["lane_splits"] == 1 or plan["splits"] == plan["num_leaves"]


def check_keeps_limits(plan: dict[str, Any]) -> None:
    if plan["family"] == "nothing":
        return
    assert plan["supported"]
    assert plan["threads"] % 32 == 0 and 32 <= plan["threads"] <= 256
    assert plan["shared_bytes"] <= 99 * 1024, (
        "the least a block may have on compute capability 8.0 and later"
    )
    assert plan["num_counters"] * 4 <= 32 * 1024, "the counters of a stream"
    assert plan["num_leaves"] <= 512 + 256, "a warp folds the leaves of a row"
    shares = plan["splits"] * plan["lane_splits"] > 1
    if plan["cluster"]:
        assert shares and 2 <= plan["splits"] <= 16 and plan["leaves_per_split"] == 1
        assert plan["num_blocks"] == plan["num_items"], "the blocks of a cluster are there together"
        assert plan["num_counters"] == 0
    else:
        assert (plan["num_counters"] > 0) == shares
        assert shares <= (plan["partial_bytes"] > 0)


def test_plans_cover_all_work_and_keep_all_limits(planner: Any) -> None:
    questions = on_every_card(shapes())
    assert len(questions) > 2000
    for question, plan in zip(questions, planner(questions), strict=True):
        try:
            check_covers_everything(question, plan)
            check_keeps_limits(plan)
        except AssertionError as error:
            raise AssertionError(f"{question}: {plan}") from error


def test_a_row_has_at_most_512_leaves(planner: Any) -> None:
    lengths = [n + d for n in (2**21, 2**22, 3 * 2**22, 2**28, 2**32, 2**35) for d in (-1, 0, 1)]
    for plan in planner([Question((n,), (1,), (0,)) for n in lengths]):
        assert plan["num_leaves"] <= 512


def test_the_grid_cap_is_a_loop(planner: Any) -> None:
    questions = [
        Question((10000, 100), (100, 1), (1,), max_blocks=7),
        Question((100, 10000), (10000, 1), (0,), max_blocks=7),
        Question((10000, 5000), (5000, 1), (1,), max_blocks=7),
    ]
    for question, plan in zip(questions, planner(questions), strict=True):
        assert plan["num_items"] > 7 and plan["num_blocks"] == 7
        check_covers_everything(question, plan)


def test_vectors_only_where_every_address_is_aligned(planner: Any) -> None:
    def columns(width: int, address: int = 0, pitch: int | None = None) -> Question:
        return Question((1000, width), (pitch or width, 1), (0,), address=address)

    wide, odd, shifted, pitched = planner(
        [columns(64), columns(63), columns(64, address=4), columns(64, pitch=65)]
    )
    assert wide["vector"] == 4 and wide["rows_of_unit"] == 1
    # Four rows of 63 are 63 vectors.
    assert odd["vector"] == 4 and odd["rows_of_unit"] == 4
    assert shifted["vector"] == pitched["vector"] == 1


def test_families(planner: Any) -> None:
    rows, block, columns, stepped, converted = planner(
        [
            Question((1000, 100), (100, 1), (1,)),
            Question((100000,), (1,), (0,)),
            Question((1000, 100), (100, 1), (0,)),
            Question((1000, 50), (100, 2), (1,)),
            Question((100000,), (1,), (0,), reads_rows=False),
        ]
    )
    assert rows["family"] == "rows_warp"
    assert block["family"] == "rows_block"
    assert columns["family"] == stepped["family"] == converted["family"] == "tiles"
    assert stepped["lanes_first"] and not columns["lanes_first"]


@pytest.mark.parametrize("num_sms", CARDS[:-1])
def test_large_problems_fill_the_card(planner: Any, num_sms: int) -> None:
    sizes = [(1, 2**26), (64, 2**20), (8192, 8192), (2**20, 64), (2**22, 16)]
    questions = [
        Question(s, contiguous(*s), (dim,), num_sms=num_sms) for s in sizes for dim in (0, 1)
    ]
    for question, plan in zip(questions, planner(questions), strict=True):
        assert plan["num_blocks"] >= num_sms, f"{question}: {plan}"


def test_too_many_axes_are_said(planner: Any) -> None:
    sizes, strides = (2,) * 40, (1,) * 40
    (plan,) = planner([Question(sizes, strides, tuple(range(40)))])
    assert not plan["supported"]
