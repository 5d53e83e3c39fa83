"""Builds the native core, with `framelift/surface/core_build.py`.  All other facts are in pyproject.toml.

FRAMELIFT_TORCHES=FOLDER:FOLDER builds for these torches, each a folder with torch's headers and libraries; without it,
for the torch that is installed.  A wheel holds a core for each, and csrc: where no core fits, one is built at import.
FRAMELIFT_SANITIZE=1 builds with AddressSanitizer and UndefinedBehaviorSanitizer: see `make sanitize`.
"""

import glob
import importlib.util
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


def part(name: str) -> ModuleType:
    """A file of framelift's that needs nothing of framelift."""
    spec = importlib.util.spec_from_file_location(name, f"src/framelift/surface/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


core_build, native_core = part("core_build"), part("native_core")
#: torch's own libraries have no type information for the sanitizer's vptr check
SANITIZE = [
    "-fsanitize=address,undefined",
    "-fno-sanitize=vptr",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-g1",
]
CSRC = sorted(glob.glob("csrc/*"))


def fail(sentence: str) -> None:
    sys.exit(f"framelift: {sentence}")


def torches() -> list[str]:
    """The folders of the torches to build for."""
    named = [root for root in os.environ.get("FRAMELIFT_TORCHES", "").split(os.pathsep) if root]
    return named or installed_torch()


def installed_torch() -> list[str]:
    """The folder of the torch that is installed here, which is not imported."""
    found = importlib.util.find_spec("torch")
    return list(found.submodule_search_locations)[:1] if found and found.submodule_search_locations else []


def readme() -> str:
    """README.md with absolute links, as the package index shows it."""
    urls = tomllib.loads(Path("pyproject.toml").read_text())["project"]["urls"]
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^]]*\]\()(?!https:)", rf"\1{urls['Repository']}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^]]*\]\()(?!https:)", rf"\1{urls['Repository']}/blob/main/", text)


class Build(build_ext):
    """A core for each torch, and the sources beside them."""

    def build_extension(self, extension: Extension) -> None:
        flags = SANITIZE if os.environ.get("FRAMELIFT_SANITIZE") else []
        try:
            core_build.build(Path("csrc"), self.cores(), Path(self.build_temp), flags)
        except core_build.BuildFailed as error:
            fail(f"{error}.")
        if not self.inplace:
            self.copy_tree("csrc", self.below("csrc"))

    def below(self, path: object) -> str:
        return os.path.join(self.build_lib, "framelift", str(path))

    def cores(self) -> dict[str, Path]:
        """Where the core of each torch goes."""
        source = Path("src/framelift").resolve()
        paths = {torch: native_core.core_of(core_build.version_of(torch)).resolve() for torch in torches()}
        return {torch: Path(self.below(path.relative_to(source))) for torch, path in paths.items()}

    def copy_extensions_to_source(self) -> None:
        """Put what was built beside the sources."""
        for core in self.cores().values():
            beside = Path("src/framelift", core.relative_to(self.below("")))
            beside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(core, beside)

    def get_outputs(self) -> list[str]:
        return [*map(str, self.cores().values()), *map(self.below, CSRC)]


#: commands that end in compiling: what is missing is said before anything else is done
BUILDS = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}

if (reason := native_core.unsupported()) is not None:
    fail(f"{reason}.")
if BUILDS.intersection(sys.argv):
    try:
        for torch in torches():
            core_build.version_of(torch)
            core_build.compiler()
    except core_build.BuildFailed as error:
        fail(f"{error}.")
    if not torches() and "bdist_wheel" not in sys.argv:
        fail("PyTorch is not installed in this environment; install torch 2.11 or newer first.")
setup(
    long_description=readme(),
    long_description_content_type="text/markdown",
    ext_modules=[Extension("framelift._core", sources=[], depends=CSRC)],
    cmdclass={"build_ext": Build},
)
