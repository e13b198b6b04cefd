"""The built functions and layers made small and measured: `python -m deployment.bundle .aws-sam/build`.

Libraries lose what no function reads and symbols that only debuggers do, sources get their byte code, and the sizes are
printed. Exits 1 when a function with its layers is larger than its bounds. The release (a hash of all that was built)
and the architecture of the libraries are written to files beside the build.
"""

from __future__ import annotations

import compileall
import csv
import hashlib
import io
import py_compile
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployment.descriptions import trim_descriptions
from deployment.parameters import find_architecture
from deployment.roots import write_roots

MB = 1_000_000
UNUSED = ("bin", "pydantic/v1")  # of the latter FastAPI asks each model's class whether it is there
TESTS = frozenset({"test", "tests"})
SOURCES = frozenset({".c", ".h", ".pxd", ".pyi", ".pyx"})  # of what is compiled already
METADATA = frozenset({"METADATA", "entry_points.txt"})  # of a distribution: what importlib.metadata reads
LICENCES = ("LICEN", "NOTICE", "COPYING")  # how their files begin
RELEASE_LETTERS = 16


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes, as files and as an archive of them."""

    unzipped: int
    zipped: int

    def __add__(self, other: Size) -> Size:
        return Size(self.unzipped + other.unzipped, self.zipped + other.zipped)

    def fits(self, bound: Size) -> bool:
        """Return True if neither is larger."""
        return self.unzipped <= bound.unzipped and self.zipped <= bound.zipped

    def __str__(self) -> str:
        return f"{self.unzipped / MB:8.1f} {self.zipped / MB:8.1f}"


BOUND = Size(85 * MB, 30 * MB)
"""Of a function and the layers that are not in LARGE."""

LARGE: Mapping[str, Size] = {"CloudsLayer": Size(45 * MB, 20 * MB), "SearchLayer": Size(75 * MB, 27 * MB)}
"""One compiled library each, which cannot be made smaller: with a bound of its own, and only where it is needed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One function. `size`: with all of its layers; `excess`: the parts that are larger than their bounds."""

    name: str
    layers: tuple[str, ...]
    size: Size
    excess: tuple[str, ...]


def trim(folder: Path) -> None:
    """Remove what no function reads from the libraries in a layer's folder."""
    trim_descriptions(folder)
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
    """Return True if a folder is a library's own tests, and no module of that name that it imports."""
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
    """Remove from compiled libraries the symbols that nothing links against; why not from all of them, "" otherwise."""
    libraries = sorted(path for path in folder.rglob("*.so*") if path.is_file())
    program = shutil.which("strip")
    if program is None:
        return f"{len(libraries)} compiled libraries keep their symbols: there is no program `strip`"
    failed = [path.name for path in libraries if not _strip(program, path)]  # as one for other processors does
    return f"`strip` cannot read {', '.join(failed)}: they keep their symbols" if failed else ""


def _strip(program: str, library: Path) -> bool:
    # S603: no shell, and a library that the build has just put there
    return subprocess.run([program, "--strip-unneeded", library], capture_output=True).returncode == 0  # noqa: S603


def compile_sources(folder: Path) -> None:
    """Put byte code beside every source, valid whatever the time of the source: a copy of it has another one.

    It is the same wherever the folder lies. What is no Python of this version is left out.
    """
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(folder, quiet=2, workers=0, invalidation_mode=mode, stripdir=str(folder))


def measure(folder: Path) -> Size:
    """The size of a folder, also as the archive that is uploaded."""
    unzipped, archive = 0, io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for path in _list_files(folder):
            unzipped += path.stat().st_size
            written.write(path, path.relative_to(folder))
    return Size(unzipped, len(archive.getvalue()))


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def find_release(folders: Iterable[Path]) -> str:
    """A name for what is in the folders: another one as soon as a byte of it is another."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in _list_files(folder):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{folder.name}/{path.relative_to(folder)}\0{content}\n".encode())
    return digest.hexdigest()[:RELEASE_LETTERS]


def find_layers(template: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Each function → its layers, those of all functions first."""
    common = _read_layers(template.get("Globals", {}).get("Function", {}))
    return {
        name: (*common, *_read_layers(resource["Properties"]))
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Serverless::Function"
    }


def _read_layers(properties: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(layer["Ref"] for layer in properties.get("Layers", ()))


def judge(sizes: Mapping[str, Size], layers: Mapping[str, tuple[str, ...]]) -> Iterator[Row]:
    """A row for each function, by its name. `sizes`: of functions and layers."""
    for name, its_layers in sorted(layers.items()):
        parts = {"itself": sum((sizes[layer] for layer in its_layers if layer not in LARGE), start=sizes[name])}
        parts |= {layer: sizes[layer] for layer in its_layers if layer in LARGE}
        excess = tuple(part for part, size in parts.items() if not size.fits(LARGE.get(part, BOUND)))
        yield Row(name, its_layers, sum(parts.values(), start=Size(0, 0)), excess)


def show(rows: Iterable[Row]) -> str:
    """The table of sizes, in MB."""
    lines = [f"{'function and its layers':<24} {'MB':>8} {'zipped':>8}"]
    for row in rows:
        excess = f"  TOO LARGE: {', '.join(row.excess)}" if row.excess else ""
        lines.append(f"{row.name:<24} {row.size}  {' '.join(row.layers)}{excess}")
    return "\n".join(lines)


def main(build: Path) -> int:
    """Make small, measure and name what `sam build` left in a folder; 1 when something is too large."""
    import yaml  # as the template is read: only where that command is installed

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
    for folder in folders:
        compile_sources(folder)
    rows = list(judge({folder.name: measure(folder) for folder in folders}, layers))
    print(show(rows))
    (build.parent / "release").write_text(find_release(folders))
    (build.parent / "architecture").write_text(find_architecture(build.rglob("*.so")))
    return 1 if any(row.excess for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
