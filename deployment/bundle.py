"""Make built functions and layers smaller and measure them: `python -m deployment.bundle .aws-sam/build`.

Unused files and debugging symbols are removed from libraries, and sources are compiled. The byte code that most
functions import is stored in one file. The sizes are printed, and the command exits with 1 if a function with its
layers exceeds its bounds. It writes the release (a hash of the whole build) and the architecture of the libraries to
files beside the build.
"""

from __future__ import annotations

import compileall
import csv
import hashlib
import io
import platform
import py_compile
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployment.dataclass_code import REQUIREMENTS, install_libraries, store_dataclass_code
from deployment.descriptions import trim_descriptions
from deployment.module_code import store_modules
from deployment.omissions import omit
from deployment.parameters import MACHINE_NAMES, find_architecture
from deployment.roots import write_roots

MB = 1_000_000
POWERTOOLS = "aws_lambda_powertools"
LAYERS = ("clouds", "search", "sign_in")  # with requirements of their own
UNUSED = (  # folders of libraries
    "bin",
    "pydantic/v1",  # FastAPI looks it up for each class of models
    f"{POWERTOOLS}/event_handler",  # with the dump of a model of pydantic, which no log line has
    *(
        f"{POWERTOOLS}/utilities/{name}"
        for name in ("auth_alpha", "batch", "circuit_breaker", "data_masking", "feature_flags", "idempotency", "kafka")
    ),
    *(f"{POWERTOOLS}/utilities/{name}" for name in ("parameters", "parser", "streaming", "validation")),
)
TESTS = frozenset({"test", "tests"})
SOURCES = frozenset({".c", ".h", ".pxd", ".pyi", ".pyx"})  # of compiled modules
METADATA = frozenset({"METADATA", "entry_points.txt"})  # the files of a distribution that importlib.metadata reads
LICENCES = ("LICEN", "NOTICE", "COPYING")  # the first letters of file names
RELEASE_LETTERS = 16


@dataclass(frozen=True, slots=True)
class Size:
    """The bytes of files, and of an archive of these files."""

    unzipped: int
    zipped: int

    def __add__(self, other: Size) -> Size:
        return Size(self.unzipped + other.unzipped, self.zipped + other.zipped)

    def fits(self, bound: Size) -> bool:
        """Return True if neither number exceeds the bound."""
        return self.unzipped <= bound.unzipped and self.zipped <= bound.zipped

    def __str__(self) -> str:
        return f"{self.unzipped / MB:8.1f} {self.zipped / MB:8.1f}"


BOUND = Size(85 * MB, 30 * MB)
"""The bound of a function with the layers that are not in LARGE."""

LARGE: Mapping[str, Size] = {"CloudsLayer": Size(45 * MB, 20 * MB), "SearchLayer": Size(75 * MB, 27 * MB)}
"""The bounds of layers with one large compiled library each. Only functions that need the library have the layer."""


@dataclass(frozen=True, slots=True)
class Row:
    """A function. `size` includes all of its layers; `excess` names the parts that exceed their bounds."""

    name: str
    layers: tuple[str, ...]
    size: Size
    excess: tuple[str, ...]


def trim(folder: Path) -> None:
    """Remove files that no function reads from the libraries in the folder of a layer."""
    trim_descriptions(folder)
    omit(folder)
    for path in sorted(folder.rglob("*")):
        if not path.exists():
            continue  # in a folder that was removed
        if path.is_dir() and (path.name == "__pycache__" or _is_tests(path)):
            shutil.rmtree(path)
        elif path.is_file() and path.suffix in SOURCES:
            path.unlink()
    for distribution in folder.glob("*.dist-info"):
        _trim_distribution(distribution)
    for unused in UNUSED:
        shutil.rmtree(folder / unused, ignore_errors=True)


def remove_common(folder: Path, common: Path) -> None:
    """Remove from a layer's folder the distributions that the layer of all functions has in the same version."""
    for metadata in sorted(folder.glob("*.dist-info")):
        if not (common / metadata.name).is_dir():
            continue
        rows = csv.reader((metadata / "RECORD").read_text().splitlines())
        paths = [folder / row[0] for row in rows if row and ".." not in Path(row[0]).parts]
        for path in paths:
            path.unlink(missing_ok=True)
        shutil.rmtree(metadata, ignore_errors=True)
        for parent in sorted({parent for path in paths for parent in path.parents}, reverse=True):
            if folder in parent.parents and parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()


def _is_tests(folder: Path) -> bool:
    """Return True if a folder has the tests of a library. A library may import a module of the same name."""
    return folder.name in TESTS and any(path.name.startswith(("test_", "conftest")) for path in folder.iterdir())


def _trim_distribution(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        is_kept = path.name in METADATA or path.name.upper().startswith(LICENCES)
        if path.is_file() and not is_kept:
            path.unlink()
        elif path.is_dir() and path.name != "licenses":
            shutil.rmtree(path)
    metadata = folder / "METADATA"
    if metadata.exists():
        metadata.write_text(metadata.read_text().partition("\n\n")[0] + "\n")


def strip_libraries(folder: Path) -> str:
    """Strip compiled libraries of unneeded symbols. Return the reason if some keep their symbols, else ""."""
    libraries = sorted(path for path in folder.rglob("*.so*") if path.is_file())
    program = shutil.which("strip")
    if program is None:
        return f"{len(libraries)} compiled libraries keep their symbols: there is no program `strip`"
    failed = [path.name for path in libraries if not _strip(program, path)]  # such as one for another processor
    return f"`strip` cannot read {', '.join(failed)}: they keep their symbols" if failed else ""


def _strip(program: str, library: Path) -> bool:
    # S603: there is no shell, and the library comes from the build
    return subprocess.run([program, "--strip-unneeded", library], capture_output=True).returncode == 0  # noqa: S603


def compile_sources(folder: Path) -> None:
    """Compile every source. The byte code stays valid in a copy of the source, which has another modification time.

    It does not depend on the path of the folder. Sources that this version of Python cannot compile are left out.
    """
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(folder, quiet=2, workers=0, invalidation_mode=mode, stripdir=str(folder))


def measure(folder: Path) -> Size:
    """Return the size of a folder, as files and as the archive that is uploaded."""
    unzipped, archive = 0, io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for path in _list_files(folder):
            unzipped += path.stat().st_size
            written.write(path, path.relative_to(folder))
    return Size(unzipped, len(archive.getvalue()))


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def find_release(folders: Iterable[Path]) -> str:
    """Return the hash of the content of folders, which changes with each byte."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in _list_files(folder):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{folder.name}/{path.relative_to(folder)}\0{content}\n".encode())
    return digest.hexdigest()[:RELEASE_LETTERS]


def find_layers(template: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the layers of each function, with the common layers first."""
    common = _read_layers(template.get("Globals", {}).get("Function", {}))
    return {
        name: (*common, *_read_layers(resource["Properties"]))
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Serverless::Function"
    }


def _read_layers(properties: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(layer["Ref"] for layer in properties.get("Layers", ()))


def judge(sizes: Mapping[str, Size], layers: Mapping[str, tuple[str, ...]]) -> Iterator[Row]:
    """Yield a row for each function, ordered by name. `sizes`: the sizes of functions and layers."""
    for name, its_layers in sorted(layers.items()):
        parts = {"itself": sum((sizes[layer] for layer in its_layers if layer not in LARGE), start=sizes[name])}
        parts |= {layer: sizes[layer] for layer in its_layers if layer in LARGE}
        excess = tuple(part for part, size in parts.items() if not size.fits(LARGE.get(part, BOUND)))
        yield Row(name, its_layers, sum(parts.values(), start=Size(0, 0)), excess)


def show(rows: Iterable[Row]) -> str:
    """Return the table of sizes, in MB."""
    lines = [f"{'function and its layers':<24} {'MB':>8} {'zipped':>8}"]
    for row in rows:
        excess = f"  TOO LARGE: {', '.join(row.excess)}" if row.excess else ""
        lines.append(f"{row.name:<24} {row.size}  {' '.join(row.layers)}{excess}")
    return "\n".join(lines)


def main(build: Path) -> int:
    """Make the output of `sam build` smaller and measure it. Return 1 if a part is too large."""
    import yaml  # imported here: installed only with the SAM command

    template = yaml.safe_load((build / "template.yaml").read_text())
    layers = find_layers(template)
    common = _read_layers(template.get("Globals", {}).get("Function", {}))
    shared = {layer for its in layers.values() for layer in its}
    for name, layer in ((name, layer) for name in shared.difference(common) for layer in common):
        remove_common(build / name / "python", build / layer / "python")
    for name in shared:
        trim(build / name / "python")
        if failed_libraries := strip_libraries(build / name / "python"):
            print(f"{name}: {failed_libraries}")
        write_roots(build / name / "python")
    folders = sorted(build / name for name in {*layers, *shared})
    package, *others = (build / name / "python" for name in [*common, *sorted(shared.difference(common))])
    sources = sorted(path for name in layers for path in (build / name).rglob("*.py"))
    tables = template["Globals"]["Function"]["Environment"]["Variables"]["MANGROVE_TABLES"]["Fn::Sub"]
    architecture = find_architecture(build.rglob("*.so"))
    is_native = architecture == MACHINE_NAMES.get(platform.machine())
    requirements = [Path("shared", "requirements.txt"), *(REQUIREMENTS / name / "requirements.txt" for name in LAYERS)]
    with nullcontext() if is_native else install_libraries(requirements) as libraries:
        if reason := store_dataclass_code(package, others, sources, tables, libraries):
            print(reason)
    for folder in folders:
        compile_sources(folder)
    store_modules(package)
    rows = list(judge({folder.name: measure(folder) for folder in folders}, layers))
    print(show(rows))
    (build.parent / "release").write_text(find_release(folders))
    (build.parent / "architecture").write_text(architecture)
    return 1 if any(row.excess for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
