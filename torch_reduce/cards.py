"""What is known of NVIDIA's cards: enough to plan a call for one, and to say how fast it can be."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

__all__ = ["CARDS", "Card", "find_card"]

KIB, MIB = 2**10, 2**20


@dataclass(frozen=True)
class Card:
    """A card, in the numbers that decide how a reduction runs on it."""

    name: str
    compute_capability: tuple[int, int]
    num_sms: int
    """Multiprocessors."""
    l2_bytes: int
    max_shared_bytes: int
    """Shared memory that one block may ask for."""
    gb_per_s: float | None = None
    """The speed of memory, in 10^9 bytes a second; None if it is not known."""
    gb_per_s_source: str = ""
    """``measured`` for the fastest read seen, ``datasheet`` for a figure that no kernel reaches."""
    max_blocks: int = 2**31 - 1
    """Of a grid."""


def _card(
    name: str,
    compute_capability: tuple[int, int],
    num_sms: int,
    l2_mib: int,
    gb_per_s: float,
    source: str = "datasheet",
) -> Card:
    # CUDA C++ Programming Guide, technical specifications per compute capability.
    shared_kib = {(8, 0): 163, (8, 9): 99, (9, 0): 227, (10, 0): 227}[compute_capability]
    return Card(
        name=name,
        compute_capability=compute_capability,
        num_sms=num_sms,
        l2_bytes=l2_mib * MIB,
        max_shared_bytes=shared_kib * KIB,
        gb_per_s=gb_per_s,
        gb_per_s_source=source,
    )


CARDS: dict[str, Card] = {
    card.name: card
    for card in (
        _card("A100 40GB", (8, 0), 108, 40, 1555),
        _card("A100 80GB", (8, 0), 108, 40, 2039),
        _card("H100", (9, 0), 132, 50, 3350),
        _card("H100 PCIe", (9, 0), 114, 50, 2000),
        _card("H200", (9, 0), 132, 60, 4600, "measured"),
        _card("L40S", (8, 9), 142, 96, 864),
        _card("B200", (10, 0), 148, 126, 8000),
        _card("RTX 4090", (8, 9), 128, 72, 1008),
    )
}
"""Cards that a call can be explained for on a machine without one, by name (the SXM forms where
there are several)."""


def _words(name: str) -> set[str]:
    return set(name.lower().replace("-", " ").split())


def find_card(name: str) -> Card:
    """The card of :data:`CARDS` whose name has all words of `name`, in any case.

    Raises:
        ValueError: If no card has, or several have and none is called just that.
    """
    wanted = _words(name)
    found = [card for card in CARDS.values() if wanted and wanted <= _words(card.name)]
    exact = [card for card in found if _words(card.name) == wanted]
    if len(exact or found) != 1:
        raise ValueError(
            f"device: expected a CUDA device or one of {', '.join(CARDS)}, got {name!r}"
        )
    return (exact or found)[0]


def _is_named(full_name: str, name: str) -> bool:
    """Whether a driver's `full_name`, "NVIDIA H100 80GB HBM3" say, means the card `name`.

    The forms of a card differ in the speed of their memory.
    """
    full, short, forms = _words(full_name), _words(name), {"pcie", "nvl"}
    return short <= full and short & forms == full & forms


def card_of(device: torch.device) -> Card:
    """The card behind a CUDA device; the speed of its memory if its name is a known one."""
    properties = torch.cuda.get_device_properties(device)
    card = Card(
        name=properties.name,
        compute_capability=(properties.major, properties.minor),
        num_sms=properties.multi_processor_count,
        l2_bytes=properties.L2_cache_size,
        max_shared_bytes=properties.shared_memory_per_block_optin,  # type: ignore[attr-defined]
    )
    for known in CARDS.values():
        if known.num_sms == card.num_sms and _is_named(card.name, known.name):
            return dataclasses.replace(
                card, gb_per_s=known.gb_per_s, gb_per_s_source=known.gb_per_s_source
            )
    return card
