"""What is installed: the library, the loader's sentences, the CMake package; and the layers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_reduce

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(torch_reduce.__file__).resolve().parent
LIBRARY = PACKAGE / "lib" / "libgpureduce.so"


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run_python(
    code: str, folder: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new interpreter that imports torch_reduce from `folder`."""
    path = str(PACKAGE.parent if folder is None else folder)
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=path,
        env={**os.environ, "PYTHONPATH": path, **env},
    )


def tool(name: str) -> str:
    """A build tool, the one beside this Python first."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} here")
    return found


# --- the library ---------------------------------------------------------------------------------


def test_library_has_no_python_symbol() -> None:
    undefined = output_of(tool("nm"), "-D", "--undefined-only", LIBRARY)
    names = [line.split()[-1] for line in undefined.splitlines()]
    assert names
    assert [name for name in names if re.match(r"_?Py[A-Z_]", name)] == []


def test_library_links_only_what_it_uses() -> None:
    dynamic = output_of(tool("readelf"), "-d", LIBRARY)
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))
    allowed = (
        r"lib(torch|torch_cpu|torch_cuda|c10|c10_cuda|cudart|stdc\+\+|m|gcc_s|gomp|c|dl)\.so.*"
    )
    loader = r"|ld-linux.*"
    assert [name for name in needed if not re.fullmatch(allowed + loader, name)] == []


def test_library_exports_only_its_own_functions() -> None:
    defined = output_of(tool("nm"), "-D", "--defined-only", "--demangle", LIBRARY)
    functions = [line.split(maxsplit=2)[2] for line in defined.splitlines() if " T " in line]
    assert any(name.startswith("gpureduce::sum(") for name in functions)
    assert [name for name in functions if not name.startswith("gpureduce::")] == []


def test_library_is_small_enough() -> None:
    assert LIBRARY.stat().st_size < 45 * 10**6


# --- version and build information ---------------------------------------------------------------


def test_version_is_written_once() -> None:
    version = (ROOT / "VERSION").read_text().strip()
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert torch_reduce.__version__ == version
    assert torch_reduce.build_info()["gpureduce"] == version

    sources = [ROOT / name for name in ("CMakeLists.txt", "pyproject.toml", "setup.py", "Makefile")]
    for folder, pattern in (("csrc", "*"), ("cmake", "*"), ("torch_reduce", "*.py")):
        sources += [path for path in (ROOT / folder).rglob(pattern) if path.is_file()]
    built = {PACKAGE / "lib", PACKAGE / "share", PACKAGE / "include"}
    elsewhere = re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.])")
    again = [
        str(path.relative_to(ROOT))
        for path in sources
        if not built.intersection(path.parents) and elsewhere.search(path.read_text())
    ]
    assert again == []


def test_build_info() -> None:
    info = torch_reduce.build_info()
    assert set(info) == {"gpureduce", "torch", "cuda", "arch_list", "compiler"}
    assert info["torch"].split(".")[:2] == torch.__version__.split(".")[:2]
    assert bool(info["arch_list"]) == (info["cuda"] is not None)


def test_cmake_prefix_path() -> None:
    config = Path(torch_reduce.cmake_prefix_path) / "gpureduce" / "gpureduceConfig.cmake"
    assert config.is_file()
    assert (PACKAGE / "include" / "gpureduce" / "gpureduce.h").is_file()
    assert (PACKAGE / "py.typed").is_file()


# --- the loader ----------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of the package, to be damaged."""
    shutil.copytree(
        PACKAGE, tmp_path / "torch_reduce", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def change_build_info(folder: Path, **values: object) -> None:
    path = folder / "torch_reduce" / "lib" / "build_info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def import_error(result: subprocess.CompletedProcess[str]) -> str:
    """The message of the ImportError that ended the process, which must be one sentence."""
    assert result.returncode == 1, result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert last.endswith(".")
    assert not re.search(r"[.!?] [A-Z]", last)
    return last


@pytest.mark.parametrize("built", ["2.10.1+cu128", "3.11.0"])
def test_library_of_another_torch(copy: Path, built: str) -> None:
    change_build_info(copy, torch=built)
    message = import_error(run_python("import torch_reduce", copy))
    assert built in message
    assert torch.__version__ in message
    assert "pip install" in message


def test_library_of_another_patch_version_loads(copy: Path) -> None:
    major, minor = torch.__version__.split(".")[:2]
    change_build_info(copy, torch=f"{major}.{minor}.99+cpu")
    result = run_python("import torch_reduce", copy)
    assert result.returncode == 0, result.stderr


def test_library_of_another_cuda(copy: Path) -> None:
    change_build_info(copy, cuda="99.1")
    message = import_error(run_python("import torch_reduce", copy))
    assert "99.1" in message
    assert "pip install" in message


@pytest.mark.parametrize("name", ["libgpureduce.so", "build_info.json"])
def test_missing_library(copy: Path, name: str) -> None:
    (copy / "torch_reduce" / "lib" / name).unlink()
    message = import_error(run_python("import torch_reduce", copy))
    assert str(copy) in message
    assert "pip install" in message


def test_library_loaded_twice(copy: Path) -> None:
    """By the package and by hand, and by a second copy of the package beside the first."""
    code = f"""
import importlib, sys, torch
import torch_reduce
torch.ops.load_library({str(LIBRARY)!r})
torch.ops.load_library({str(LIBRARY)!r})
for name in [name for name in sys.modules if name.split(".")[0] == "torch_reduce"]:
    del sys.modules[name]
sys.path.insert(0, {str(copy)!r})
import torch_reduce as second
assert second.__file__.startswith({str(copy)!r})
assert second.sum(torch.ones(5)).item() == 5
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr


def test_import_without_a_gpu() -> None:
    code = """
import torch, torch_reduce
assert not torch.cuda.is_available()
assert torch_reduce.mean(torch.arange(5.0)).item() == 2
assert torch.ops.gpureduce.sum(torch.ones(3, 4), 1).tolist() == [4, 4, 4]
"""
    result = run_python(code, CUDA_VISIBLE_DEVICES="")
    assert result.returncode == 0, result.stderr


# --- the layers ----------------------------------------------------------------------------------

CORE = r"core/.+"
REDUCTIONS = r"reductions/.+"
# Which of the project's own headers each folder of csrc may include; nothing runs the other way.
ALLOWED = {
    "core": [CORE],
    "reductions": [CORE, REDUCTIONS],
    "cuda": [CORE, REDUCTIONS, r"cuda/.+"],
    "cpu": [CORE, REDUCTIONS, r"cpu/.+"],
    "ladder": [CORE, REDUCTIONS, r"ladder/.+"],
    "ops": [
        CORE,
        r"reductions/(registry|reduction|kernel_traits)\.h",
        r"cuda/launch\.h",
        r"cpu/run\.h",
        r"ladder/.+\.h",
        r"ops/.+",
        r"gpureduce/gpureduce\.h",
    ],
    "include": [],
}
SOURCE_SUFFIXES = (".h", ".cuh", ".cpp", ".cu", ".in")
TORCH = r"(torch|ATen|c10|caffe2)/.+"
# Headers of nvcc itself, which the shared host and device code of these folders may need.
CUDA = r"cuda.*|vector_.+|cooperative_groups.*|mma\.h|cub/.+|nv/.+"


def include_lines() -> list[tuple[str, Path, str]]:
    found = []
    for path in sorted((ROOT / "csrc").rglob("*")):
        if path.is_file() and path.name.endswith(SOURCE_SUFFIXES):
            layer = path.relative_to(ROOT / "csrc").parts[0]
            for header in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.M):
                found.append((layer, path, header))
    return found


def own(header: str) -> bool:
    return header.startswith("gpureduce/") or (ROOT / "csrc" / header).exists()


def test_every_folder_is_a_known_layer() -> None:
    layers = {layer for layer, _, _ in include_lines()}
    assert layers
    assert layers <= set(ALLOWED)


def test_include_rule() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {header}"
        for layer, path, header in include_lines()
        if own(header) and not any(re.fullmatch(rule, header) for rule in ALLOWED[layer])
    ]
    assert wrong == []


def test_own_headers_are_included_by_their_full_path() -> None:
    """`"run.h"` beside `"cpu/run.h"` would slip past the include rule."""
    names = {path.name for path in (ROOT / "csrc").rglob("*") if path.is_file()}
    wrong = [
        f"{path.relative_to(ROOT)}: {header}"
        for _, path, header in include_lines()
        if not own(header) and (header in names or header.startswith("."))
    ]
    assert wrong == []


def test_torch_is_known_to_ops_alone() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {header}"
        for layer, path, header in include_lines()
        if layer not in ("ops", "include") and re.match(TORCH, header)
    ]
    assert wrong == []


def test_core_is_plain_cpp() -> None:
    """Neither CUDA's headers nor a library's, so that it compiles and is tested anywhere."""
    wrong = [
        f"{path.relative_to(ROOT)}: {header}"
        for layer, path, header in include_lines()
        if layer == "core" and not own(header) and ("/" in header or "." in header)
    ]
    assert wrong == []


def test_reductions_know_the_standard_library_and_nvcc() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {header}"
        for layer, path, header in include_lines()
        if layer == "reductions"
        and not own(header)
        and ("/" in header or "." in header)
        and not re.fullmatch(CUDA, header)
    ]
    assert wrong == []


# --- the build's own logic -----------------------------------------------------------------------


def run_cmake_script(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.cmake"
    script.write_text(text)
    return subprocess.run([tool("cmake"), "-P", script], capture_output=True, text=True)


def parse_arch_list(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    return run_cmake_script(
        folder,
        f"""
cmake_minimum_required(VERSION 3.26)
include("{ROOT}/cmake/GpureduceArchList.cmake")
gpureduce_parse_arch_list("{text}" out)
message(STATUS "<${{out_LIST}}> <${{out_CMAKE}}>")
""",
    )


@pytest.mark.parametrize(
    ("text", "normal", "cmake"),
    [
        ("9.0", "9.0", "90-real"),
        ("9.0+PTX", "9.0+PTX", "90"),
        ("8.0;9.0+PTX", "8.0;9.0+PTX", "80-real;90"),
        ("8.0 8.6  9.0a", "8.0;8.6;9.0a", "80-real;86-real;90a-real"),
        ("8.0, 12.0+PTX", "8.0;12.0+PTX", "80-real;120"),
        (" 10.0f; 10.0f ", "10.0f", "100f-real"),
    ],
)
def test_arch_list(tmp_path: Path, text: str, normal: str, cmake: str) -> None:
    result = parse_arch_list(tmp_path, text)
    assert result.returncode == 0, result.stderr
    assert f"<{normal}> <{cmake}>" in result.stdout


@pytest.mark.parametrize("text", ["Hopper", "90", "9", "sm_90", "9.0+ptx", "8.0;native", ";", " "])
def test_arch_list_rejects(tmp_path: Path, text: str) -> None:
    result = parse_arch_list(tmp_path, text)
    assert result.returncode != 0
    said = " ".join(result.stderr.split())
    assert "TORCH_CUDA_ARCH_LIST" in said
    assert "9.0+PTX" in said


def decide_cuda(folder: Path, choice: str, torch_cuda: str, **env: str) -> tuple[int, str]:
    """What the build decides for a torch of CUDA `torch_cuda` and the nvcc that `env` names."""
    script = folder / "script.cmake"
    script.write_text(f"""
cmake_minimum_required(VERSION 3.26)
include("{ROOT}/cmake/GpureduceCuda.cmake")
set(TORCH_DIR "{folder}/torch")
set(TORCH_VERSION 2.11.0)
set(TORCH_CUDA "{torch_cuda}")
gpureduce_decide_cuda({choice})
""")
    result = subprocess.run(
        [tool("cmake"), "-P", script],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "", **env},
    )
    return result.returncode, " ".join((result.stdout + result.stderr).split())


def fake_toolkit(folder: Path, version: str) -> Path:
    """A toolkit whose nvcc knows its version and nothing else."""
    nvcc = folder / "toolkit" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.1'\n")
    nvcc.chmod(0o755)
    runtime = folder / "toolkit" / "lib64" / f"libcudart.so.{version.split('.')[0]}"
    runtime.parent.mkdir()
    runtime.touch()
    return nvcc


@pytest.mark.parametrize("choice", ["AUTO", "ON"])
def test_cuda_is_on_with_torch_and_nvcc_of_one_major_version(tmp_path: Path, choice: str) -> None:
    nvcc = fake_toolkit(tmp_path, "77.2")
    status, said = decide_cuda(tmp_path, choice, "77.0", CUDACXX=str(nvcc))
    assert status == 0, said
    assert "CUDA kernels ON (torch is CUDA 77.0, nvcc 77.2 from CUDACXX" in said


def test_cuda_auto_is_off_with_a_reason(tmp_path: Path) -> None:
    nvcc = fake_toolkit(tmp_path, "77.2")
    status, said = decide_cuda(tmp_path, "AUTO", "", CUDACXX=str(nvcc))
    assert (status, "CUDA kernels OFF" in said, "not a CUDA build" in said) == (0, True, True)

    # 78 is no version that a machine could have.
    status, said = decide_cuda(tmp_path, "AUTO", "78.0", CUDACXX=str(nvcc))
    assert status == 0
    assert "CUDA kernels OFF" in said
    assert "torch is CUDA 78.0" in said
    assert "cuda-toolkit[nvcc" in said


def test_cuda_on_without_nvcc_names_the_cure(tmp_path: Path) -> None:
    status, said = decide_cuda(tmp_path, "ON", "78.0")
    assert status != 0
    assert "GPUREDUCE_CUDA=ON, but" in said
    assert "cuda-toolkit[nvcc" in said


def test_cuda_off_asks_for_no_toolkit(tmp_path: Path) -> None:
    status, said = decide_cuda(tmp_path, "OFF", "78.0")
    assert status == 0
    assert "CUDA kernels OFF" in said
    assert "GPUREDUCE_CUDA=OFF" in said


def test_cuda_choice_is_checked(tmp_path: Path) -> None:
    status, said = decide_cuda(tmp_path, "maybe", "78.0")
    assert status != 0
    assert "AUTO, ON or OFF" in said


# --- the C++ example -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built against the installed package (a minute: ATen's headers are large)."""
    toolkit = shutil.which("nvcc") or os.environ.get("CUDA_HOME") or os.environ.get("CUDACXX")
    if torch.version.cuda is not None and not (toolkit or Path("/usr/local/cuda").exists()):
        pytest.skip("find_package(Torch) demands a CUDA Toolkit of a CUDA build of torch")
    build = tmp_path_factory.mktemp("example")
    prefix = f"{torch.utils.cmake_prefix_path};{torch_reduce.cmake_prefix_path}"
    configure = [tool("cmake"), "-S", ROOT / "examples" / "libtorch", "-B", build]
    for command in (
        [*configure, f"-DCMAKE_PREFIX_PATH={prefix}"],
        [tool("cmake"), "--build", build, "--parallel", "2"],
    ):
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return build


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda",
            marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
        ),
    ],
)
def test_cpp_example(example: Path, device: str) -> None:
    result = subprocess.run(
        [example / "reduce", "--device", device], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "DIFFERENT" not in result.stdout


def test_cpp_program_that_names_no_symbol_has_the_operators(example: Path) -> None:
    result = subprocess.run([example / "lookup"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "gpureduce::sum(Tensor self" in result.stdout
