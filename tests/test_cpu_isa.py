"""Every instruction set of the CPU loops gives the same bits.

A variable of torch's own limits which one is used.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
DTYPES = ["float32", "float64", "bfloat16", "float16", "int8", "bool", "int64", "complex64"]

PROGRAM = f"""
import sys
import torch
import torch_reduce
generator = torch.Generator().manual_seed(0)
found = {{}}
for name in {DTYPES}:
    dtype = getattr(torch, name)
    for shape in ((100003,), (301, 1000), (5000, 3), (3, 5000), (700, 17), (40, 130, 6)):
        x = (torch.randn(shape, generator=generator, dtype=torch.float64) * 30).to(dtype)
        for dim in (None, *range(len(shape))):
            ops = ["sum"] if dtype.is_complex else ["sum", "amax", "argmax"]
            for op in ops:
                got = getattr(torch.ops.gpureduce, op)(x, dim)
                found[name, shape, dim, op] = got
print(torch.backends.cpu.get_cpu_capability())
torch.save(found, sys.argv[1])
"""


def results(capability: str, path: Path) -> tuple[str, dict[object, torch.Tensor]]:
    """What the program finds with torch limited to `capability`, and what torch then has."""
    environment = os.environ | {"ATEN_CPU_CAPABILITY": capability}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), torch.load(path)


def test_instruction_sets_agree_to_the_bit(tmp_path: Path) -> None:
    has, baseline = results("default", tmp_path / "default.pt")
    assert has == "DEFAULT"
    compared = 0
    for capability in ("avx2", "avx512"):
        if not getattr(torch.cpu, f"_is_{capability}_supported")():
            continue
        has, wide = results(capability, tmp_path / f"{capability}.pt")
        assert has == capability.upper()
        assert wide.keys() == baseline.keys()
        for key, value in wide.items():
            ours, theirs = value.reshape(-1), baseline[key].reshape(-1)
            assert torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8)), (capability, key)
        compared += 1
    if compared == 0:
        pytest.skip("this processor has the baseline set only")
