"""Network namespaces: detect support of the kernel, and run programs without them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from mangrove.standalone.namespace import Namespace, NamespaceRefused

# a user namespace in which no further network namespace can be made, by the kernel's own limit
NAMESPACE_COMMAND = ["unshare", "--user", "--map-root-user", "sh", "-c"]
NAMESPACE_SCRIPT = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'


def _has_namespaces() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        try:
            Namespace(Path(folder)).close()
        except NamespaceRefused:
            return False
    return True


def _can_be_without() -> bool:
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run(
            [*NAMESPACE_COMMAND, NAMESPACE_SCRIPT, "sh", "true"], capture_output=True, check=False
        ).returncode
        == 0
    )


needs_namespaces = pytest.mark.skipif(not _has_namespaces(), reason="the kernel has no network namespace for us")
needs_refusal = pytest.mark.skipif(not _can_be_without(), reason="the kernel has no user namespace for us")


def without_namespaces(command: list[str]) -> list[str]:
    """A command as it runs where the kernel refuses a network namespace."""
    return [*NAMESPACE_COMMAND, NAMESPACE_SCRIPT, "sh", *command]
