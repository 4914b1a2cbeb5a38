"""Drives the CMake build.

What is built is decided in CMakeLists.txt; metadata is in pyproject.toml.

Environment: GPUREDUCE_CUDA (AUTO, ON, OFF), TORCH_CUDA_ARCH_LIST, MAX_JOBS, CMAKE_ARGS.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import setuptools
from setuptools.command.build_py import build_py

if int(setuptools.__version__.split(".")[0]) < 77:
    sys.exit(
        f"gpureduce needs setuptools 77 or newer and this is {setuptools.__version__}: "
        f"run `{sys.executable} -m pip install --upgrade 'setuptools>=77,<82'`."
    )
from setuptools.command.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build"


def find_tool(name: str) -> str | None:
    """Prefer the tool beside this Python: the system's CMake is often too old for CUDA's C++20."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def torch_dir() -> Path:
    """The torch package this Python would import, without paying for the import."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        sys.exit(
            "gpureduce is built against an installed torch and this Python has none: "
            f"run `{sys.executable} -m pip install torch` first."
        )
    return Path(next(iter(spec.submodule_search_locations)))


def cached(name: str) -> str | None:
    """A value of the last configuration, or None."""
    try:
        text = (BUILD / "CMakeCache.txt").read_text()
    except FileNotFoundError:
        return None
    found = re.search(rf"^{name}(?::\w+)?=(.*)$", text, re.MULTILINE)
    return found.group(1) if found else None


def run_cmake(prefix: Path, relocatable: bool) -> None:
    """Configure, build (only what changed since the last time) and install into `prefix`."""
    cmake = find_tool("cmake")
    if cmake is None:
        sys.exit(f"gpureduce needs CMake: run `{sys.executable} -m pip install cmake ninja`.")
    configure = [cmake, "-S", str(ROOT), "-B", str(BUILD)]
    make_program = cached("CMAKE_MAKE_PROGRAM")
    # A cache made for another checkout, or by a build tool that is gone (an isolated build's), is
    # of no use and stops CMake.
    if make_program is not None and (
        cached("CMAKE_HOME_DIRECTORY") != str(ROOT) or not Path(make_program).exists()
    ):
        configure.append("--fresh")
        make_program = None
    ninja = find_tool("ninja")
    if make_program is None and ninja is not None:
        configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    configure += [
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DGPUREDUCE_TORCH_DIR={torch_dir()}",
        f"-DGPUREDUCE_CUDA={os.environ.get('GPUREDUCE_CUDA', 'AUTO')}",
        f"-DTORCH_CUDA_ARCH_LIST={os.environ.get('TORCH_CUDA_ARCH_LIST', '')}",
        f"-DGPUREDUCE_RELOCATABLE={'ON' if relocatable else 'OFF'}",
        *shlex.split(os.environ.get("CMAKE_ARGS", "")),
    ]
    jobs = os.environ.get("MAX_JOBS") or str(len(os.sched_getaffinity(0)))
    for command in (
        configure,
        [cmake, "--build", str(BUILD), "--target", "gpureduce", "--parallel", jobs],
        [cmake, "--install", str(BUILD), "--prefix", str(prefix)],
    ):
        print("gpureduce:", shlex.join(command), flush=True)
        try:
            subprocess.run(command, check=True)
        except subprocess.CalledProcessError as error:
            # CMake has said what is wrong; a Python traceback under it would bury that.
            sys.exit(f"gpureduce: `{Path(cmake).name} {command[1]}` failed ({error.returncode}).")


class BuildPy(build_py):
    """Adds the library, its header and its CMake package to the Python files."""

    def run(self) -> None:
        base = ROOT if self.editable_mode else Path(self.build_lib).resolve()
        if not self.editable_mode:
            # What an earlier build put there, and this one does not, would end up in the wheel.
            shutil.rmtree(base / "torch_reduce", ignore_errors=True)
        super().run()
        run_cmake(base / "torch_reduce", relocatable=not self.editable_mode)


class PlatformWheel(bdist_wheel):
    """One wheel for every Python 3: the library knows nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(setuptools.Distribution):
    """Bound to a platform, although setuptools compiles nothing itself."""

    def has_ext_modules(self) -> bool:
        return True


setuptools.setup(
    distclass=BinaryDistribution,
    cmdclass={"build_py": BuildPy, "bdist_wheel": PlatformWheel},
    # CMake owns build/; setuptools gets a folder of its own in it.
    options={"build": {"build_base": "build/python"}},
)
