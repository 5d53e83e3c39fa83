"""Builds the native core against the torch that is installed.  All other facts are in pyproject.toml.

FRAMELIFT_SANITIZE=1 builds it with AddressSanitizer and UndefinedBehaviorSanitizer: see `make sanitize`.
"""

import concurrent.futures
import glob
import os
import pathlib
import re
import shlex
import shutil
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

MINIMUM_TORCH = (2, 11)
PYTHONS = ((3, 11), (3, 15))  # from, to (not included)
HEADERS = sorted(glob.glob("csrc/*.h"))
#: a file of csrc -> the files that it includes, which are compiled as one with it
UNITS = {
    path: [f"csrc/{name}" for name in re.findall(r'#include "(\w+\.cpp)"', pathlib.Path(path).read_text())]
    for path in sorted(glob.glob("csrc/*.cpp"))
}
SOURCES = sorted(UNITS.keys() - {name for names in UNITS.values() for name in names})
#: torch's own libraries have no type information for the sanitizer's vptr check
SANITIZE = [
    "-fsanitize=address,undefined",
    "-fno-sanitize=vptr",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-g1",
]


def fail(sentence: str) -> None:
    sys.exit(f"framelift: {sentence}")


def check_python() -> None:
    version = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
    if sys.implementation.name != "cpython" or sys.version_info[:2] < PYTHONS[0]:
        fail(f"{version} is not supported; use CPython 3.11, 3.12, 3.13 or 3.14.")
    if sys.version_info[:2] >= PYTHONS[1]:
        fail(
            f"{version} is not supported yet: it needs a dialect in src/framelift/bytecode/dialects and its frames in "
            "csrc/frame_access.h, see docs/adding/python_version.md; use CPython 3.11, 3.12, 3.13 or 3.14."
        )
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        fail(
            "free-threaded builds of CPython are not supported: guards and the core's tables would need locks, see "
            "docs/design.md; use a build with the GIL."
        )


def check_compiler() -> None:
    compiler = shlex.split(os.environ.get("CXX") or "g++")[0]
    if shutil.which(compiler) is None:
        fail(f"no C++ compiler found ({compiler}); install g++ or set CXX to one.")


def torch_paths() -> tuple[list[str], list[str], int]:
    """Include folders, library folders and the C++ ABI flag of the installed torch."""
    try:
        import torch
    except ImportError:
        fail(
            "PyTorch is not installed in this environment; install torch 2.11 or newer first, then run "
            "`pip install --no-build-isolation .`."
        )
    version = tuple(int(x) for x in torch.__version__.split("+")[0].split(".")[:2])
    if version < MINIMUM_TORCH:
        fail(f"torch {torch.__version__} is too old; framelift needs torch 2.11 or newer.")
    root = os.path.dirname(torch.__file__)
    return (
        [os.path.join(root, "include"), os.path.join(root, "include", "torch", "csrc", "api", "include")],
        [os.path.join(root, "lib")],
        int(torch._C._GLIBCXX_USE_CXX11_ABI),
    )


def newest(paths: list[str]) -> float:
    return max((os.path.getmtime(p) for p in paths), default=0.0)


class Build(build_ext):
    """Checks first, then compiles several files at once, and only those that changed."""

    def build_extensions(self) -> None:
        include, lib, abi = torch_paths()
        for extension in self.extensions:
            extension.include_dirs += include
            extension.library_dirs += lib
            extension.runtime_library_dirs += lib
            extension.libraries += ["torch_python", "torch_cpu", "torch", "c10"]
            extension.extra_compile_args += [
                "-std=c++20",
                "-O2",
                "-g0",
                "-fvisibility=hidden",
                "-Wno-deprecated-declarations",
                f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
            ]
            if os.environ.get("FRAMELIFT_SANITIZE"):
                extension.extra_compile_args += SANITIZE
                extension.extra_link_args += SANITIZE
        self.compiler.compile = self.compile_changed(self.compiler.compile)
        super().build_extensions()

    def compile_changed(self, compile):
        """setuptools compiles every file, one after the other; the core is a dozen files of heavy headers."""

        def run(sources, output_dir=None, **options):
            def one(source):
                (made,) = self.compiler.object_filenames([source], output_dir=output_dir)
                fresh = os.path.exists(made) and os.path.getmtime(made) > newest(
                    [source, "setup.py", *UNITS[source], *HEADERS]
                )
                return made if fresh and not self.force else compile([source], output_dir=output_dir, **options)[0]

            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                return list(pool.map(one, sources))

        return run


#: commands that end in compiling: what is missing is said before anything else is done
BUILDS = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}

check_python()
if BUILDS.intersection(sys.argv):
    check_compiler()
    torch_paths()
setup(
    ext_modules=[Extension("framelift._core", sources=SOURCES, depends=[*HEADERS, *UNITS], language="c++")],
    cmdclass={"build_ext": Build},
)
