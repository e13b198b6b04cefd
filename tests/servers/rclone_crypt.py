"""The real rclone as the other user of an encrypted folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mangrove.drivers.crypt.ciphers import PREFIX, obscure

BINARY = Path(sys.executable).parent / "rclone"


@dataclass(frozen=True, slots=True)
class RcloneCrypt:
    """A crypt remote `c:` over `folder` with these settings of rclone's, passwords in the clear."""

    folder: Path
    config: Path
    settings: Mapping[str, str]

    def run(self, *arguments: str) -> str:
        """Return the output of a command; CalledProcessError if it fails."""
        environment = os.environ | {"RCLONE_CONFIG": str(self.config)}
        done = subprocess.run([BINARY, *arguments], env=environment, capture_output=True, check=True, timeout=300)
        return done.stdout.decode()

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        environment = os.environ | {"RCLONE_CONFIG": str(self.config)}
        command = [BINARY, "cat", f"c:{path}"]
        return subprocess.run(command, env=environment, capture_output=True, check=True, timeout=300).stdout


def configure(folder: Path, config: Path, **settings: str) -> RcloneCrypt:
    """Write rclone's configuration."""
    secrets = {"password", "password2"}
    lines = ["[c]", "type = crypt", f"remote = {folder}"]
    lines += [f"{name} = {value}" for name, value in settings.items() if name not in secrets]
    lines += [f"{name} = {obscure(settings[name]).removeprefix(PREFIX)}" for name in secrets & settings.keys()]
    config.write_text("\n".join(lines) + "\n")
    return RcloneCrypt(folder, config, settings)
