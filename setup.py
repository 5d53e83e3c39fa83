"""Builds the native core against the torch that is installed.  All other facts are in pyproject.toml."""

import glob
import os
import shutil
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

MINIMUM_TORCH = (2, 11)


def fail(sentence: str) -> None:
    sys.exit(f"framelift: {sentence}")


def torch_paths() -> tuple[list[str], list[str]]:
    try:
        import torch
    except ImportError:
        fail("PyTorch is not installed in this environment; install torch 2.11 or newer first, then run "
             "`pip install --no-build-isolation .`.")
    version = tuple(int(x) for x in torch.__version__.split("+")[0].split(".")[:2])
    if version < MINIMUM_TORCH:
        fail(f"torch {torch.__version__} is too old; framelift needs torch 2.11 or newer.")
    root = os.path.dirname(torch.__file__)
    return ([os.path.join(root, "include"), os.path.join(root, "include", "torch", "csrc", "api", "include")],
            [os.path.join(root, "lib")])


class Build(build_ext):
    def build_extensions(self) -> None:
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            fail(f"no C++ compiler found ({compiler}); install g++ or set CXX.")
        if sys.version_info < (3, 11) or sys.version_info >= (3, 14):
            fail(f"CPython {sys.version_info.major}.{sys.version_info.minor} is not supported; use 3.11, 3.12 or 3.13.")
        import torch
        include, lib = torch_paths()
        abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
        for extension in self.extensions:
            extension.include_dirs += include
            extension.library_dirs += lib
            extension.runtime_library_dirs += lib
            extension.libraries += ["torch_python", "torch_cpu", "torch", "c10"]
            extension.extra_compile_args += ["-std=c++20", "-O2", "-g0", "-fvisibility=hidden", "-Wno-deprecated-declarations",
                                             f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
        super().build_extensions()


setup(
    ext_modules=[Extension("framelift._core", sources=sorted(glob.glob("csrc/*.cpp")),
                           depends=sorted(glob.glob("csrc/*.h")), language="c++")],
    cmdclass={"build_ext": Build},
)
