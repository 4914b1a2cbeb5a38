"""Reductions for PyTorch tensors at the speed of memory, with one fixed order of combination.

Importing this package loads ``libgpureduce.so`` and with it ``torch.ops.gpureduce.*``. The
functions here are those operators, with types and documentation.

>>> import torch, torch_reduce
>>> torch_reduce.sum(torch.ones(3, 4), dim=1)
tensor([4., 4., 4.])
"""

from torch_reduce._library import PACKAGE_DIR, BuildInfo, build_info, load
from torch_reduce.cards import Card
from torch_reduce.explanation import Explanation, explain
from torch_reduce.functions import amax, argmax, mean, sum

load()

__version__ = build_info()["gpureduce"]

cmake_prefix_path = str(PACKAGE_DIR / "share" / "cmake")
"""Where CMake finds gpureduce, for CMAKE_PREFIX_PATH, as ``torch.utils.cmake_prefix_path``."""

__all__ = [
    "BuildInfo",
    "Card",
    "Explanation",
    "__version__",
    "amax",
    "argmax",
    "build_info",
    "cmake_prefix_path",
    "explain",
    "mean",
    "sum",
]
