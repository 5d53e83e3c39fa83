"""Builds the native core.  All other facts are in pyproject.toml.

One file knows torch's structs (csrc/torch_unit.cpp): it is compiled once for each torch, everything else once for each
Python.  A core is linked for each torch, and `framelift/surface/native_core.py` chooses the one that fits.

FRAMELIFT_TORCHES=FOLDER:FOLDER builds for these torches, each a folder with torch's headers and libraries; without it,
for the torch that is installed.  FRAMELIFT_SANITIZE=1 builds with AddressSanitizer and UndefinedBehaviorSanitizer:
see `make sanitize`.
"""

import concurrent.futures
import glob
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import sys
import sysconfig
from typing import NamedTuple

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
#: the one that torch's headers are for
TORCH_UNIT = "csrc/torch_unit.cpp"
API = ("torch", "csrc", "api", "include")
#: torch has loaded its libraries before; this is for tools that look at the file alone
RUNPATH = "$ORIGIN/../../../torch/lib"
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


class Torch(NamedTuple):
    """A torch to build for: its folder, and the name of its core's folder."""

    root: str
    name: str


def torches() -> list[Torch]:
    """The torches to build for; an error where there is none, or one that is too old."""
    found = []
    named = [root for root in os.environ.get("FRAMELIFT_TORCHES", "").split(os.pathsep) if root]
    for root in named or [installed_torch()]:
        text = (pathlib.Path(root) / "version.py").read_text()
        version = re.search(r"__version__ = '((\d+)\.(\d+)[^']*)", text)
        if version is None or (int(version[2]), int(version[3])) < MINIMUM_TORCH:
            fail(f"torch {version and version[1]} is too old; framelift needs torch 2.11 or newer.")
        found.append(Torch(root, f"torch_{version[2]}_{version[3]}"))
    return found


def installed_torch() -> str:
    """The folder of the torch that is installed here, which is not imported."""
    found = importlib.util.find_spec("torch")
    if found is None or not found.submodule_search_locations:
        fail(
            "PyTorch is not installed in this environment; install torch 2.11 or newer first, then run "
            "`pip install --no-build-isolation .`."
        )
    return found.submodule_search_locations[0]


def is_fresh(made: str) -> bool:
    """Return whether an object file is newer than this file and all that the compiler read for it (its `.d` file)."""
    try:
        rule = pathlib.Path(made).with_suffix(".d").read_text().replace("\\\n", " ")
        read = shlex.split(rule.partition(": ")[2])
        return os.path.getmtime(made) > max(map(os.path.getmtime, ["setup.py", *read]))
    except FileNotFoundError:
        return False


class Build(build_ext):
    """Checks first, then compiles several files at once, and only those that changed."""

    def build_extension(self, extension: Extension) -> None:
        self.compiler.compile = self.compile_changed(self.compiler.compile)
        flags = ["-std=c++20", "-O2", "-g0", "-MMD", "-fvisibility=hidden", "-Wno-deprecated-declarations"]
        links = []
        if os.environ.get("FRAMELIFT_SANITIZE"):
            flags += SANITIZE
            links += SANITIZE
        common = self.compiler.compile(
            [source for source in SOURCES if source != TORCH_UNIT], self.build_temp, extra_postargs=flags
        )
        for torch in torches():
            include = [os.path.join(torch.root, "include", *part) for part in ((), API)]
            unit = self.compiler.compile(
                [TORCH_UNIT],
                os.path.join(self.build_temp, torch.name),
                include_dirs=include,
                extra_postargs=[*flags, "-D_GLIBCXX_USE_CXX11_ABI=1"],
            )
            self.compiler.link_shared_object(
                [*common, *unit],
                self.core_of(torch),
                libraries=["torch_python", "torch_cpu", "torch", "c10"],
                library_dirs=[os.path.join(torch.root, "lib")],
                extra_postargs=[*links, f"-Wl,-rpath,{RUNPATH}"],
                target_lang="c++",
            )

    def core_of(self, torch: Torch, base: str = "") -> str:
        """Where the core for a torch goes."""
        core = f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
        return os.path.join(base or self.build_lib, "framelift", "native", torch.name, core)

    def copy_extensions_to_source(self) -> None:
        """Put what was built beside the sources."""
        for torch in torches():
            beside = self.core_of(torch, "src")
            os.makedirs(os.path.dirname(beside), exist_ok=True)
            shutil.copy(self.core_of(torch), beside)

    def get_outputs(self) -> list[str]:
        return [self.core_of(torch) for torch in torches()]

    def compile_changed(self, compile):
        """Compile several files at once, and only stale ones: setuptools compiles every file, one after the other."""

        def run(sources, output_dir=None, **options):
            def one(source):
                (made,) = self.compiler.object_filenames([source], output_dir=output_dir)
                os.makedirs(os.path.dirname(made), exist_ok=True)
                if is_fresh(made) and not self.force:
                    return made
                return compile([source], output_dir=output_dir, **options)[0]

            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                return list(pool.map(one, sources))

        return run


#: commands that end in compiling: what is missing is said before anything else is done
BUILDS = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}

check_python()
if BUILDS.intersection(sys.argv):
    check_compiler()
    torches()
setup(
    ext_modules=[Extension("framelift._core", sources=SOURCES, depends=[*HEADERS, *UNITS], language="c++")],
    cmdclass={"build_ext": Build},
)
