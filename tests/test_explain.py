"""`torch_reduce.explain`: what a call would do, told without doing it."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_reduce import Card, explain
from torch_reduce.cards import CARDS, card_of, find_card

H200 = CARDS["H200"]


def meta(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(sizes, dtype=dtype, device="meta")


def test_a_row_sum() -> None:
    e = explain("sum", meta(4096, 128256), dim=-1, device="H200")
    assert (e.op, e.shape, e.dtype, e.dim) == ("sum", (4096, 128256), torch.float32, (1,))
    assert e.card is H200
    assert (e.num_outputs, e.length) == (4096, 128256)
    assert (e.kept, e.reduced) == (((4096, 128256),), ((128256, 1),))
    assert (e.order, e.lanes, e.leaves, e.leaf_elements) == ("leaves", 1024, 31, 4096)
    assert (e.launches, e.load_bytes) == (1, 16)
    assert e.bytes_read == 4096 * 128256 * 4
    assert e.bytes_written == 4096 * 4
    assert e.floor_us == pytest.approx((e.bytes_read + e.bytes_written) / 4600e3)
    assert not e.fits_l2


def test_it_prints_as_a_table_and_a_sentence() -> None:
    e = explain("sum", meta(1000, 64, dtype=torch.bfloat16), 0, device="L40S")
    title, *lines = str(e).splitlines()
    rows = [line for line in lines if line.startswith("  ")]
    sentence = lines[len(rows) :]
    assert title == "sum of 1000 x 64 bfloat16 over dim 0, on L40S"
    table = {row.split()[0]: row.split(maxsplit=1)[1] for row in rows}
    assert {row.index(row.split(maxsplit=1)[1]) for row in rows} == {12}, "one column"
    assert table["family"] == e.family
    assert table["work"] == "64 results of 1000 elements"
    assert table["grid"].startswith(f"{e.grid} block")
    assert f"of {e.block} threads" in table["grid"]
    assert table["bytes"] == "125 KiB read, 128 B written"
    assert table["floor"].startswith("0.148 µs at 864 GB/s (datasheet)")
    assert " ".join(sentence) == e.reason
    assert e.reason.endswith(".") and max(map(len, sentence)) <= 100


def test_the_page_shows_what_is_printed() -> None:
    """docs/performance.md: its code is run, and prints the block that follows."""
    page = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
    blocks = re.findall(
        r"^```python\n(.*?)^```\n+```text\n(.*?)^```", page.read_text(), re.M | re.S
    )
    assert len(blocks) == 1
    for code, shown in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, {})
        assert printed.getvalue() == shown


@pytest.mark.parametrize("op", ["sum", "mean", "amax", "argmax"])
def test_every_op_is_explained(op: str) -> None:
    e = explain(op, meta(100, 5000), 0, device="B200")
    result = getattr(torch.ops.gpureduce, op)(meta(100, 5000), 0)
    assert e.bytes_written == result.numel() * result.element_size()
    assert (e.order == "any") == (op in ("amax", "argmax"))


def test_the_names_of_orders() -> None:
    def order(length: int, dtype: torch.dtype = torch.float32) -> str:
        return explain("sum", meta(length, dtype=dtype), device="H200").order

    assert [order(n) for n in (128, 129, 6143, 6144)] == ["tree", "lanes", "lanes", "leaves"]
    assert order(6144, torch.int8) == "any"


def test_a_tensor_larger_than_any_memory() -> None:
    x = meta(2**36)
    e = explain("sum", x, device="H200")
    assert (e.length, e.leaves, e.bytes_read) == (2**36, 512, 2**38)
    assert explain("argmax", x.view(2**18, 2**18), 0, device="H200").num_outputs == 2**18


def test_bytes_that_share_a_place_are_read_once() -> None:
    def bytes_read(x: torch.Tensor) -> int:
        return explain("sum", x, device="H200").bytes_read

    assert bytes_read(meta(1).expand(2**40)) == 4
    assert bytes_read(meta(100, 1).expand(100, 7)) == 400
    assert bytes_read(meta(0).as_strided((100, 100), (1, 1))) == 199 * 4
    assert bytes_read(meta(100, 100)[:, ::2]) == 5000 * 4
    assert bytes_read(meta(3, 0)) == 0


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), ()])
def test_tensors_without_elements_or_dims(shape: tuple[int, ...]) -> None:
    dim = 1 if shape else 0
    e = explain("sum", meta(*shape), dim, device="H200")
    assert e.launches == int(shape != (0, 5))
    assert e.family != "nothing" or "nothing is launched" in e.reason
    assert e.floor_us is not None and str(e)


def test_alignment_comes_from_the_offset() -> None:
    """Whether of a tensor without memory or of one that would have to be copied to a card."""
    for base in (meta(8 * 64 + 8), torch.zeros(8 * 64 + 8)):
        aligned = explain("sum", base[4:-4].view(8, 64), 0, device="H200")
        shifted = explain("sum", base[1:-7].view(8, 64), 0, device="H200")
        assert (aligned.plan["aligned"], shifted.plan["aligned"]) == (True, False)


def test_a_cpu_tensor_is_explained_like_a_meta_tensor() -> None:
    x = torch.zeros(33, 70, requires_grad=True)
    for dim, keepdim in ((0, False), (1, True), ([0, 1], False), (None, False)):
        on_cpu = explain("sum", x, dim, keepdim, device="H200")
        assert on_cpu == explain("sum", x.to("meta"), dim, keepdim, device="H200")


def test_dtype_converts_only_where_it_must() -> None:
    half = meta(64, 5000, dtype=torch.float16)
    same_accumulator = explain("sum", half, 1, dtype=torch.float32, device="H200")
    other_accumulator = explain("sum", half, 1, dtype=torch.float64, device="H200")
    assert same_accumulator.family == explain("sum", half, 1, device="H200").family == "rows_leaf"
    assert other_accumulator.family == "tiles"
    assert "converted" in other_accumulator.reason
    assert other_accumulator.bytes_written == 64 * 8


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("total", meta(3)), ValueError, "expected one of sum, mean"),
        (("sum_rung", meta(3)), ValueError, "got sum_rung"),
        (("sum", meta(3), 1), IndexError, r"gpureduce::sum\(\): dim"),
        (("sum", meta(3, 3), [0, 0]), RuntimeError, "more than once"),
        (("amax", meta(0, 3), 0), IndexError, "at least one element"),
        (("argmax", meta(3, 3), [0, 1]), RuntimeError, "dim"),
        (("amax", meta(3, dtype=torch.complex64)), NotImplementedError, "real dtype"),
        (("mean", meta(3, dtype=torch.int8)), RuntimeError, "dtype="),
        (("sum", torch.ones(3).to_sparse()), NotImplementedError, "dense strided"),
    ],
)
def test_errors_are_those_of_the_call(
    arguments: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        explain(*arguments, device="H200")


def test_an_op_without_dtype_takes_none() -> None:
    with pytest.raises(ValueError, match=r"amax\(\) has no dtype="):
        explain("amax", meta(3), dtype=torch.float64, device="H200")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card to explain calls for")
def test_without_a_card_one_must_be_named() -> None:
    with pytest.raises(ValueError, match="no CUDA device here"):
        explain("sum", meta(3))


# ---- cards


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("H200", "H200"),
        ("h200", "H200"),
        ("4090", "RTX 4090"),
        ("a100-80gb", "A100 80GB"),
        ("H100", "H100"),
        ("H100 PCIe", "H100 PCIe"),
    ],
)
def test_known_cards(name: str, card: str) -> None:
    assert find_card(name) is CARDS[card]


@pytest.mark.parametrize("name", ["A100", "TPU", ""])
def test_unknown_and_ambiguous_cards(name: str) -> None:
    with pytest.raises(ValueError, match="A100 40GB, A100 80GB, H100"):
        explain("sum", meta(3), device=name)


def test_what_is_said_of_cards() -> None:
    for name, card in CARDS.items():
        assert card.name == name
        assert card.gb_per_s and card.gb_per_s_source in ("measured", "datasheet")
        assert 99 * 2**10 <= card.max_shared_bytes <= 227 * 2**10


@pytest.mark.parametrize(
    ("full_name", "sms", "speed"),
    [
        ("NVIDIA H200", 132, 4600),
        ("NVIDIA H100 80GB HBM3", 132, 3350),
        ("NVIDIA H100 PCIe", 114, 2000),
        ("NVIDIA H100 NVL", 132, None),
        ("NVIDIA A100-SXM4-40GB", 108, 1555),
        ("NVIDIA A100-SXM4-80GB", 108, 2039),
        ("NVIDIA GeForce RTX 4090", 128, 1008),
        ("NVIDIA GeForce RTX 4090 D", 114, None),
        ("NVIDIA L4", 58, None),
    ],
)
def test_the_speed_of_a_card_that_is_there(
    full_name: str, sms: int, speed: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Properties:
        name, major, minor = full_name, 9, 0
        multi_processor_count, L2_cache_size = sms, 1
        shared_memory_per_block_optin = 2**17

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    card = card_of(torch.device("cuda:0"))
    assert (card.name, card.num_sms, card.gb_per_s) == (full_name, sms, speed)
    e = explain("sum", meta(1000), device=card)
    assert (e.floor_us is None) == (speed is None)
    assert ("not known" in str(e)) == (speed is None)


def test_a_card_of_ones_own() -> None:
    card = dataclasses.replace(H200, name="half", num_sms=66)
    whole, half = (explain("sum", meta(64, 2**20), 1, device=c) for c in (H200, card))
    assert half.grid < whole.grid
    assert isinstance(half.card, Card) and "on half" in str(half)


def test_the_card_of_this_machine(cuda: str) -> None:
    x = torch.ones(1000, 64, device=cuda)
    properties = torch.cuda.get_device_properties(x.device)
    for e in (explain("sum", x, 0), explain("sum", x.to("meta"), 0, device="cuda")):
        assert e.card.name == properties.name
        assert e.card.num_sms == properties.multi_processor_count
        assert e.launches == 1
    # Where the data lie counts.
    assert explain("sum", x, 1).plan["aligned"] and not explain("sum", x[:, 1:], 1).plan["aligned"]
