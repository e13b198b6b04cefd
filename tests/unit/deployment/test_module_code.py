"""The byte code that the build stores in one file is imported from there, as from files of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deployment.bundle import compile_sources
from deployment.module_code import FILE, LENGTH_BYTES, STORED, store_modules
from mangrove.core import stored_modules

SOURCES = Path(stored_modules.__file__).parents[1]
FUNCTION = {"AWS_LAMBDA_FUNCTION_NAME": "example", "PYTHONDONTWRITEBYTECODE": "1"}
FILES = {
    "mangum/__init__.py": "from mangum.inner import VALUE",
    "mangum/inner/__init__.py": "from .deep import VALUE",
    "mangum/inner/deep.py": "def show():\n    return 1 / 0\n\nVALUE = 'stored'",
    "mangum/data.txt": "data",
    "pyotp.py": "VALUE = 'stored'",
    "unlisted.py": "VALUE = 'compiled'",
}
USE = """
import importlib, importlib.resources, inspect, sys, traceback
import mangrove.core, mangum, pyotp, unlisted
from mangum.inner import deep
print(mangum.VALUE, pyotp.VALUE, unlisted.VALUE)
folder = sys.argv[1]
assert deep.__file__ == deep.__spec__.origin == f"{folder}/mangum/inner/deep.py", deep.__spec__
assert mangum.__path__ == [f"{folder}/mangum"] and deep.__package__ == "mangum.inner", mangum.__path__
assert mangrove.core.__path__ == [f"{folder}/mangrove/core"]
assert importlib.resources.files(mangum).joinpath("data.txt").read_text() == "data"
assert inspect.getsource(deep.show).endswith("1 / 0\\n")
assert importlib.reload(deep) is deep
try:
    deep.show()
except ZeroDivisionError:
    assert "return 1 / 0" in traceback.format_exc()
"""


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A layer with the package, libraries that are stored, and one that is not."""
    core = tmp_path / "mangrove" / "core"
    core.mkdir(parents=True)
    for name in ("__init__.py", "core/__init__.py", "core/stored_modules.py", "core/compiled_dataclasses.py"):
        shutil.copy(SOURCES / name, tmp_path / "mangrove" / name)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    compile_sources(tmp_path)
    store_modules(tmp_path)
    return tmp_path


def use(layer: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-S", "-c", USE, str(layer)], env={"PYTHONPATH": str(layer), **environment},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def remove_compiled(layer: Path) -> None:
    """Leave only the sources of the libraries, with another value in them."""
    for folder in list(layer.rglob("__pycache__")):
        shutil.rmtree(folder)
    for source in (layer / "mangum" / "inner" / "deep.py", layer / "pyotp.py", layer / "unlisted.py"):
        source.write_text(source.read_text().replace("'stored'", "'source'").replace("'compiled'", "'source'"))


def test_function_imports_the_modules_in_the_file(layer: Path) -> None:
    remove_compiled(layer)
    assert use(layer, **FUNCTION) == "stored stored source\n"


def test_process_that_is_no_function_imports_files(layer: Path) -> None:
    remove_compiled(layer)
    assert use(layer) == "source source source\n"


def test_package_keeps_the_compiled_files_that_read_the_file(layer: Path) -> None:
    compiled = {path.name.partition(".")[0] for path in (layer / "mangrove").rglob("*.pyc")}
    assert compiled == {"__init__", "stored_modules"}


def test_function_without_the_file_imports_files(layer: Path) -> None:
    (layer / FILE).unlink()
    assert use(layer, **FUNCTION) == "stored stored compiled\n"


def test_file_is_the_one_that_is_looked_for() -> None:
    assert (FILE.name, LENGTH_BYTES) == (stored_modules.FILE_NAME, stored_modules.LENGTH_BYTES)
    assert sys.implementation.cache_tag in FILE.name, "byte code of another version is not read"


def test_layer_without_the_package_gets_no_file(tmp_path: Path) -> None:
    (tmp_path / "pyotp.py").write_text("VALUE = 1")
    compile_sources(tmp_path)
    store_modules(tmp_path)
    assert not list(tmp_path.rglob("*.marshal")) and "pyotp" in STORED
