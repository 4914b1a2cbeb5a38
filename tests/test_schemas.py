"""The schemas are an interface: a change of one shows here first."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

FROZEN = (Path(__file__).parent / "schemas.txt").read_text().splitlines()


def registered() -> list[str]:
    """Each overload of each op of the namespace, as torch prints its schema."""
    names = sorted(n for n in torch._C._dispatch_get_all_op_names() if n.startswith("gpureduce::"))
    schemas = []
    for full_name in names:
        op, _, overload = full_name.partition(".")
        packet = getattr(torch.ops.gpureduce, op.removeprefix("gpureduce::"))
        schemas.append(str(getattr(packet, overload or "default")._schema))
    return schemas


def test_schemas_are_the_frozen_ones() -> None:
    assert registered() == FROZEN


@pytest.mark.parametrize("schema", FROZEN)
def test_an_op_neither_writes_nor_aliases_its_input(schema: str) -> None:
    """What `pt2_compliant_tag` promises to a compiler."""
    parsed = torch._C.parse_schema(schema)
    assert not parsed.is_mutable
    assert all(argument.alias_info is None for argument in [*parsed.arguments, *parsed.returns])
    packet = getattr(torch.ops.gpureduce, parsed.name.removeprefix("gpureduce::"))
    overload = getattr(packet, parsed.overload_name or "default")
    assert torch.Tag.pt2_compliant_tag in overload.tags


@pytest.mark.parametrize("schema", FROZEN)
@pytest.mark.parametrize("key", ["CPU", "CUDA", "Meta", "AutogradCPU", "AutogradCUDA"])
def test_each_op_has_a_kernel_for_each_key(schema: str, key: str) -> None:
    """Also without CUDA kernels: then the key's kernel says what the library was built without."""
    name = schema.partition("(")[0]
    assert torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, key)
