"""The README is run: its commands, its Python, its links, its table of dtypes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from dtypes import ALL, OPS, name

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"

# What a whole command would do for minutes, done in seconds. The tests must not run themselves.
SHORT = {
    "make bench": "--quick --select '^sum 1024 float32' --output {tmp}",
    "make test": "-q tests/test_schemas.py",
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


def run(command: list[str]) -> str:
    # As from a shell, also where these tests are a target of make themselves.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_commands_are_the_ones_that_are_run_here() -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert sorted(commands) == sorted(SHORT)


@pytest.mark.parametrize("command", SHORT)
def test_command(command: str, tmp_path: Path) -> None:
    """With the interpreter and the library of this run: nothing is installed or built."""
    arguments = SHORT[command].format(tmp=tmp_path)
    out = run([*command.split(), f"PYTHON={sys.executable}", "BUILD=0", f"ARGS={arguments}"])
    assert ("passed" if command == "make test" else "sum 1024 float32") in out


def test_python() -> None:
    snippets = blocks("python")
    assert snippets
    for snippet in snippets:
        assert run([sys.executable, "-c", snippet]).strip()


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    missing = [x for x in links if not x.startswith("http") and not (ROOT / x).exists()]
    assert links
    assert missing == []


def table_of_dtypes() -> dict[torch.dtype, list[str]]:
    """For each dtype that the table names, its cells in the order of OPS."""
    lines = README.read_text().splitlines()
    start = lines.index(f"| dtype | {' | '.join(OPS)} |") + 2
    table = {}
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        names, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        for dtype in names.split(", "):
            table[getattr(torch, dtype)] = cells
    return table


def test_the_table_names_every_dtype() -> None:
    assert sorted(map(name, table_of_dtypes())) == sorted(map(name, ALL))


@pytest.mark.parametrize("dtype", ALL, ids=name)
def test_the_table_of_dtypes_is_true(dtype: torch.dtype, device: str) -> None:
    t = torch.ones(3).to(dtype).to(device)
    for op, cell in zip(OPS, table_of_dtypes()[dtype], strict=True):
        function = getattr(torch.ops.gpureduce, op)
        if cell == "with `dtype=`":
            assert function(t, dtype=torch.float32).dtype == torch.float32
        if cell in ("", "with `dtype=`"):
            with pytest.raises(RuntimeError):
                function(t)
            continue
        want = torch.int64 if cell == "int64" or op == "argmax" else dtype
        assert cell in ("yes", "int64")
        assert function(t).dtype == want
