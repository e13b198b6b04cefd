"""What a function imports before its first request: nothing that most of its requests do without."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from mangrove.drivers import registry
from mangrove.standalone import template
from tests.support.policies import FUNCTIONS, get_folder

HEAVY = (
    "PIL", "aioftp", "argon2", "asyncssh", "bcrypt", "boto3", "cryptography.hazmat.primitives.serialization",
    "cryptography.x509", "duckdb", "fastapi", "httpx", "jwt", "mangrove.archives.readers", "mangrove.drivers.options",
    "mangrove.standalone", "nacl", "opendal", "pydantic", "pyotp", "segno", "smbclient", "smbprotocol", "yaml",
    *(f"mangrove.drivers.{module.path}" for module in registry.DRIVERS.values()),
)  # fmt: skip
PLAIN = ("functions/api/site", "functions/api/downloads")
MAY = {  # the longest beginning of its folder counts; what comes before it is imported as well
    PLAIN: set[str](),
    ("functions/workers/",): set[str](),
    ("functions/workers/download",): {"httpx"},  # which fetch
    ("functions/workers/transfer_identity",): {"httpx", "argon2", "pyotp", "segno", "mangrove.drivers.options"},
    ("functions/api/",): {"pydantic", "fastapi", "argon2", "pyotp", "segno"},  # users and their factors
}
MOST_COLLECTIONS = 20  # of garbage: what libraries make before ours are imported
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": f"{template.ROOT}:{template.ROOT / 'shared'}",
    "AWS_DEFAULT_REGION": "us-east-1",
    "MANGROVE_TABLES": "any",
}
SCRIPT = """
import importlib, json, sys
heavy, modules = json.loads(sys.argv[1])
for module in modules:
    importlib.import_module(module)
    print(json.dumps([module, [name for name in heavy if name in sys.modules]]))
"""


def import_all(folders: list[str]) -> dict[str, set[str]]:
    """What of HEAVY is imported in one new process after each function."""
    modules = [folder.replace("/", ".") + (".app" if (template.ROOT / folder).is_dir() else "") for folder in folders]
    command = [sys.executable, "-c", SCRIPT, json.dumps([HEAVY, modules])]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {folder: set(found) for folder, (_, found) in zip(folders, lines, strict=True)}


def list_folders() -> list[str]:
    """Those that may import the least come first: what one process has imported counts for all that follow."""
    return sorted(map(get_folder, FUNCTIONS), key=lambda folder: (find_kind(folder), folder))


def find_kind(folder: str) -> int:
    """The place in MAY."""
    return max(
        (len(prefix), number) for number, prefixes in enumerate(MAY) for prefix in prefixes if folder.startswith(prefix)
    )[1]


def test_a_function_imports_only_what_its_requests_need() -> None:
    folders = list_folders()
    assert set(PLAIN) < set(folders)
    allowed = list(MAY.values())
    groups = (0,), (1, 2, 3), (4,)  # a process for each: what tasks need is not what requests need
    for kinds in groups:
        some = [folder for folder in folders if find_kind(folder) in kinds]
        for folder, found in import_all(some).items():
            may = allowed[find_kind(folder)]
            assert found <= may, f"{folder} imports {', '.join(sorted(found - may))} before it is asked for anything"


COUNT = """
import gc, importlib, sys
importlib.import_module(sys.argv[1])
print(sum(one["collections"] for one in gc.get_stats()))
"""


@pytest.mark.parametrize("module", ["functions.api.site.app", "functions.workers.transfer.plan"])
def test_a_function_starts_without_looking_for_garbage(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT, module],
        env=ENVIRONMENT | {"AWS_LAMBDA_FUNCTION_NAME": "any"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) <= MOST_COLLECTIONS
