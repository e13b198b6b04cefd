"""The compiled methods of the dataclasses that functions import, for `mangrove.core.compiled_dataclasses`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

REQUIREMENTS = Path("requirements")
FILE = Path("mangrove", "core", "dataclasses.marshal")  # in the folder of the layer
RECORD = """
import dataclasses, importlib.util, marshal, sys
from contextlib import suppress
from pathlib import Path

codes = {}

def execute(source, names, local_names):
    exec(source, names, local_names)
    codes[source] = marshal.dumps(compile(source, "<dataclass>", "exec"))

dataclasses.exec = execute
import mangrove
from mangrove.core.compiled_dataclasses import find_digest

package = Path(mangrove.__path__[0])
for path in sorted(package.rglob("*.py")):
    parts = path.relative_to(package).with_suffix("").parts
    if parts[0] not in ("standalone", "client") and parts[-1] not in ("__init__", "__main__"):
        with suppress(ModuleNotFoundError):  # a library that the functions do not have
            importlib.import_module(".".join(("mangrove", *parts)))
for number, path in enumerate(sys.argv[2:]):
    spec = importlib.util.spec_from_file_location(f"function_{number}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
with open(sys.argv[1], "wb") as file:
    file.write(marshal.dumps({find_digest(source): code for source, code in sorted(codes.items())}))
"""


@contextmanager
def install_libraries(requirements: Sequence[Path]) -> Iterator[Path]:
    """Install libraries for this processor into a temporary folder: those of the layers are for another one.

    Without them the dataclasses of a build for another processor could not be imported. Their code is the same.
    """
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    with TemporaryDirectory() as folder:
        for file in requirements:
            # S603: there is no shell, and the hashes of the libraries are in the file
            subprocess.run([*command, "--require-hashes", "-r", file, "--target", folder], check=True)  # noqa: S603
        yield Path(folder)


def store_dataclass_code(
    layer: Path, more_layers: Sequence[Path], functions: Sequence[Path], tables: str, libraries: Path | None = None
) -> str:
    """Store the code of the dataclasses of all modules of the package and of the functions in the layer's folder.

    `libraries`: the folder of those to use before the libraries in the layers. Return the reason if a library cannot be
    imported, else "".
    """
    (layer / FILE).unlink(missing_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, [*([libraries] if libraries else []), layer, *more_layers])),
        "PYTHONDONTWRITEBYTECODE": "1",
        "AWS_LAMBDA_FUNCTION_NAME": "build",
        "AWS_REGION": "us-east-1",
        "MANGROVE_TABLES": tables,
    }
    # S603: there is no shell, and the modules come from the build
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-S", "-c", RECORD, str((layer / FILE).absolute()), *map(str, functions)],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        return f"dataclasses are compiled at each start: {reason}"
    return ""
