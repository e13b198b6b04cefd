"""A service with SFTP, and its users."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from tests.servers import free_port, ssh, wait_for
from tests.support.service import Client, Service

ALL = 0x7FFF & ~0x4003 | 0xC00  # every right that files need, and the door's own two
READ_ONLY = 0x400


@dataclass
class Place:
    """`root`: the folder on the disk that is mounted at `/disk`."""

    service: Service
    admin: Client
    port: int
    root: Path
    folder: Path

    def save_settings(self, **values: str) -> None:
        rows = [{"key": key, "value": value} for key, value in values.items()]
        answer = self.admin.envelope(self.admin.http.post("/api/admin/setting/save", json=rows))
        assert answer["code"] == 200, answer

    def create_user(self, name: str, permission: int = ALL, base_path: str = "/", key: bool = True) -> Client:
        """A user with the password `<name> password` and, unless told otherwise, a registered key."""
        password = f"{name} password"
        self.admin.ok(
            "/api/admin/user/create", username=name, password=password, base_path=base_path, permission=permission
        )
        client = self.service.client(name, password)
        if key:
            public = ssh.make_key(name).export_public_key("openssh").decode()
            client.ok("/api/me/sshkey/add", title="laptop", key=public)
        return client

    def find_user(self, name: str) -> dict[str, Any]:
        users = self.admin.get("/api/admin/user/list")["data"]["content"]
        user_found: dict[str, Any] = next(user for user in users if user["username"] == name)
        return user_found

    def write_key(self, name: str) -> Path:
        """The private half of a user's key, as OpenSSH wants it."""
        path = self.folder / f"key-{name}"
        path.write_text(ssh.export(ssh.make_key(name)))
        path.chmod(0o600)
        return path

    def make_options(self, name: str, **more: str) -> list[str]:
        """Return the options with which OpenSSH's programs sign in with a key."""
        options = {
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "IdentitiesOnly": "yes",
            "IdentityFile": str(self.write_key(name)),
            "PasswordAuthentication": "no",
            "LogLevel": "ERROR",
            **more,
        }
        return [part for key, value in options.items() for part in ("-o", f"{key}={value}")]

    def run_sftp(self, name: str, *lines: str) -> subprocess.CompletedProcess[str]:
        """OpenSSH's sftp with a batch of commands."""
        command = ["sftp", "-b", "-", "-P", str(self.port), *self.make_options(name), f"{name}@127.0.0.1"]
        return run(command, "\n".join(lines) + "\n")

    async def connect(self, name: str, **more: Any) -> asyncssh.SSHClientConnection:
        """asyncssh's client, with the user's key unless told otherwise."""
        how = {"client_keys": [ssh.make_key(name)], "known_hosts": None, "config": None, "agent_path": None} | more
        return await asyncssh.connect("127.0.0.1", self.port, username=name, **how)


def run(command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=300)


def read_tree(root: Path) -> dict[str, tuple[float, bytes]]:
    """All below a folder: when it changed last and, of a file, what is in it."""
    return {str(path): (path.stat().st_mtime, path.read_bytes() if path.is_file() else b"") for path in root.rglob("*")}


def open_place(service: Service, folder: Path) -> Place:
    """Mount the folder `root` at `/disk`, and open the SFTP door."""
    place = Place(service, service.client(), free_port(), folder / "root", folder)
    place.root.mkdir(exist_ok=True)
    addition = json.dumps({"root_folder_path": str(place.root), "show_hidden": True})
    place.admin.ok("/api/admin/storage/create", mount_path="/disk", driver="Local", addition=addition)
    place.save_settings(sftp_listen=f"127.0.0.1:{place.port}")
    wait_for(place.port)
    return place
