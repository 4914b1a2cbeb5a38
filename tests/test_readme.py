"""The README is run: its commands, its Python, its links, its table of dtypes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from dtypes import ALL, COMPLEX, FLOATS, INTEGERS, name

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


def table_of_ops() -> list[str]:
    """The lines of the README's table, beginning with the one that names the kinds of dtypes."""
    lines = README.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| op | "))
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    return lines[start:end]


KINDS = {
    "floats": FLOATS,
    "integers": [d for d in INTEGERS if d not in (torch.uint8, torch.bool)],
    "uint8": [torch.uint8],
    "bool": [torch.bool],
    "complex": COMPLEX,
}


def dtypes_of(op: str, dtype: torch.dtype, device: str) -> set[torch.dtype] | str:
    """What the op returns for a tensor of this dtype, or what its cell says of a refusal."""
    function = getattr(torch.ops.gpureduce, op)
    t = torch.ones(3).to(dtype).to(device)
    try:
        result = function(t)
    except RuntimeError:
        try:
            function(t, dtype=torch.float32)
        except RuntimeError:
            return ""
        return "`dtype=`"
    return {r.dtype for r in (result if isinstance(result, tuple) else (result,))}


def named_by(cell: str, dtype: torch.dtype) -> set[torch.dtype] | str:
    if cell in ("", "`dtype=`"):
        return cell
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    words = {"same": dtype, "real": dtype.to_real() if dtype.is_complex else None, "wide": wide}
    return {words.get(word) or getattr(torch, word) for word in cell.split(", ")}


def test_the_table_of_dtypes_is_true(device: str) -> None:
    header, _, *rows = table_of_ops()
    assert header == f"| op | {' | '.join(KINDS)} |"
    assert sorted(d for kind in KINDS.values() for d in map(name, kind)) == sorted(map(name, ALL))
    named = []
    for row in rows:
        ops, *cells = [cell.strip() for cell in row.strip("|").split("|")]
        named += ops.split(", ")
        for op in ops.split(", "):
            for cell, (kind, dtypes) in zip(cells, KINDS.items(), strict=True):
                for dtype in dtypes:
                    found = dtypes_of(op, dtype, device)
                    assert found == named_by(cell, dtype), (op, kind, dtype)
    registered = {
        n.removeprefix("gpureduce::").partition(".")[0]
        for n in torch._C._dispatch_get_all_op_names()
        if n.startswith("gpureduce::")
    }
    assert sorted(named) == sorted(registered - {"sum_rung", "explain"})


def test_the_table_names_the_dtypes_of_each_kind() -> None:
    text = " ".join(README.read_text().split())
    for kind in ("floats", "integers", "complex"):
        listed = re.search(rf"\b{kind}: ([a-z0-9_, ]+)\.", text)
        assert listed, kind
        assert sorted(listed[1].split(", ")) == sorted(map(name, KINDS[kind]))
