"""Finds ``libgpureduce.so`` beside the package, checks that this torch can load it, and loads it.

A library built for another torch would fail inside the dynamic linker with a mangled C++ name, or
load and misread memory. So the versions are compared before anything is loaded.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TypedDict, cast

import torch

PACKAGE_DIR = Path(__file__).resolve().parent
LIBRARY = PACKAGE_DIR / "lib" / "libgpureduce.so"
BUILD_INFO = PACKAGE_DIR / "lib" / "build_info.json"

REBUILD = "`pip install --no-build-isolation --force-reinstall --no-deps .`"


class BuildInfo(TypedDict):
    """What the library was built from and for."""

    gpureduce: str
    """The version of gpureduce."""
    torch: str
    """The version of torch; the library loads into the same major.minor only."""
    cuda: str | None
    """The version of the CUDA compiler, or None for a library that runs on the CPU only."""
    arch_list: list[str]
    """The architectures that have kernels, as TORCH_CUDA_ARCH_LIST writes them."""
    compiler: str
    """The C++ compiler."""


@functools.cache
def build_info() -> BuildInfo:
    """What the installed library was built from and for."""
    if not LIBRARY.is_file() or not BUILD_INFO.is_file():
        raise ImportError(
            f"torch_reduce has no compiled library in {LIBRARY.parent}: build it with "
            f"{REBUILD} (or `make build`) in the sources of gpureduce."
        )
    return cast(BuildInfo, json.loads(BUILD_INFO.read_text()))


def major_minor(version: str) -> tuple[str, ...]:
    return tuple(version.split("+")[0].split(".")[:2])


def check(info: BuildInfo, torch_version: str, torch_cuda: str | None) -> None:
    """Raise ImportError if a library built as `info` says cannot work with this torch."""
    if major_minor(info["torch"]) != major_minor(torch_version):
        raise ImportError(
            f"torch_reduce was built for torch {info['torch']} and this is torch {torch_version}: "
            f"build it again with {REBUILD} in the sources of gpureduce, or install torch "
            f"{'.'.join(major_minor(info['torch']))}."
        )
    built_cuda = info["cuda"]
    if built_cuda is not None and (
        torch_cuda is None or torch_cuda.split(".")[0] != built_cuda.split(".")[0]
    ):
        has = "without CUDA" if torch_cuda is None else f"for CUDA {torch_cuda}"
        raise ImportError(
            f"torch_reduce was built for CUDA {built_cuda} and this torch {torch_version} is built "
            f"{has}: build it again with {REBUILD} in the sources of gpureduce, or install a "
            f"torch for CUDA {built_cuda}."
        )


def load() -> None:
    """Register the operators, unless this process has them already.

    A second copy of the library (a C++ program that embeds Python and links its own, say) would
    register the same names again, and torch ends the process for that.
    """
    check(build_info(), torch.__version__, torch.version.cuda)
    if not hasattr(torch.ops.gpureduce, "sum"):
        torch.ops.load_library(LIBRARY)  # type: ignore[no-untyped-call]
