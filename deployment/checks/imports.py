"""A Lambda function imports only the modules that most of its requests need before the first request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from deployment.checks.project import ROOT, Project, Violation

SLOW_PACKAGES = (
    "PIL", "aioftp", "argon2", "asyncssh", "bcrypt", "boto3", "cryptography.hazmat.primitives.serialization",
    "cryptography.x509", "duckdb", "fastapi", "httpx", "joserfc", "jwt", "ldap3", "mangrove.archives.readers",
    "mangrove.drivers.options", "mangrove.standalone", "nacl", "opendal", "pydantic", "pyotp", "segno", "smbclient",
    "smbprotocol", "webauthn", "yaml",
)  # fmt: skip
REQUIREMENTS: Mapping[str, set[str]] = {  # by the folder of the function; the first pattern that matches counts
    "functions/api/site": set(),
    "functions/api/downloads": set(),
    "functions/workers/transfer_identity": {"httpx", "argon2", "pyotp", "segno", "mangrove.drivers.options"},
    "functions/workers/bucket_events": {"mangrove.drivers.options", "mangrove.drivers.s3.driver"},
    "functions/workers/*": set(),
    "functions/api/*": {"pydantic", "fastapi", "argon2", "pyotp", "segno"},
}
SCRIPT = """
import importlib, json, sys
for module in json.loads(sys.argv[1]):
    importlib.import_module(module)
    print(json.dumps([module, [name for name in json.loads(sys.argv[2]) if name in sys.modules]]))
"""


def functions_import_only_what_they_need(project: Project) -> Iterator[Violation]:
    """A Lambda function imports no slow module. One process for each set of requirements imports the functions."""
    from mangrove.drivers import registry

    slow_modules = [*SLOW_PACKAGES, *(f"mangrove.drivers.{entry.path}" for entry in registry.DRIVERS.values())]
    folders = list_function_folders()
    for pattern, required in REQUIREMENTS.items():
        matching = [folder for folder in folders if find_pattern(folder) == pattern]
        if not matching:
            yield Violation(pattern, "there is no such function")
        for folder, imported in import_functions(matching, slow_modules).items():
            if imported - required:
                yield Violation(folder, f"imports {', '.join(sorted(imported - required))} before it is called")


def list_function_folders() -> list[str]:
    """Return the folder of each function's code, or the module in it for a function that is not an app."""
    from mangrove.standalone.template import iter_resources

    properties = [resource["Properties"] for _, resource in iter_resources("AWS::Serverless::Function")]
    handlers = {entry["CodeUri"] + entry.get("Handler", "app.handler").partition(".")[0] for entry in properties}
    return sorted(handler.removesuffix("/app") for handler in handlers)


def find_pattern(folder: str) -> str:
    return next(pattern for pattern in REQUIREMENTS if fnmatchcase(folder, pattern))


def import_functions(folders: list[str], slow_modules: list[str]) -> dict[str, set[str]]:
    """Return the slow modules that a new process has imported after each function."""
    names = [folder.replace("/", ".") + (".app" if (ROOT / folder).is_dir() else "") for folder in folders]
    done = subprocess.run(  # noqa: S603 - a script of ours
        [sys.executable, "-c", SCRIPT, json.dumps(names), json.dumps(slow_modules)],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT}:{ROOT / 'shared'}",
            "AWS_DEFAULT_REGION": "us-east-1",
            "MANGROVE_TABLES": "any",
        },
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {folder: set(imported) for folder, (_, imported) in zip(folders, lines, strict=True)}
