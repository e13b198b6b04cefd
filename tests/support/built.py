"""Functions as `make build` leaves them: their own code, read-only, and their layers, and nothing else to import."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from deployment.bundle import find_layers
from mangrove.standalone import template
from tests.support.runtime_api import ROOT, Launch

BUILD = Path(os.environ.get("MANGROVE_TEST_BUILD", ROOT / ".aws-sam" / "build"))
CLIENT = ("awslambdaric", "runtime_client", "simplejson", "snapshot_restore_py")  # what Lambda's own Python brings
MOUNTED = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && cd "$1" && shift && exec "$@"'


def find_reason_to_skip() -> str:
    """Why built functions cannot run here; "" when they can."""
    if not (BUILD / "template.yaml").exists():
        return "the functions are not built: `make build`"
    if sys.version_info[:2] != (3, 13):
        return "the functions are built for Python 3.13"
    if shutil.which("unshare") is None or subprocess.run([*MOUNTED, "true"], capture_output=True).returncode:
        return "the kernel has no mount namespace for us"
    return ""


class Built:
    """Starts functions from the build. `folder`: for the runtime client, which is no part of the layers."""

    def __init__(self, folder: Path) -> None:
        self._layers = find_layers(template.load_template())
        self._client = folder
        for name in CLIENT:
            spec = find_spec(name)
            assert spec is not None and spec.origin is not None
            origin = Path(spec.origin)
            path = origin.parent if origin.name == "__init__.py" else origin
            (folder / path.name).symlink_to(path)

    def __call__(self, name: str) -> Launch:
        code = BUILD / name
        layers = [BUILD / layer / "python" for layer in self._layers[name]]
        python = [*MOUNTED, READ_ONLY, "sh", code, sys.executable, "-S"]  # -S: nothing of the tests' own environment
        return Launch(python, code, [code, *layers, self._client])
