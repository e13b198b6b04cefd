"""azurite, which speaks Azure Blob on loopback; installed below tests/protocol/azurite by `npm ci`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import httpx

from tests import servers

PACKAGE = Path(__file__).parents[1] / "protocol" / "azurite"
PROGRAM = PACKAGE / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
ACCOUNT = "devstoreaccount1"  # azurite's own, whose key is public
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2021-08-06"
MISSING = "" if PROGRAM.exists() and shutil.which("node") else "azurite is not installed"
LOAD_SECONDS = 120  # it is a large program


class Azurite:
    """azurite on `folder`."""

    def __init__(self, folder: Path) -> None:
        self.port = servers.free_port()
        command = [
            "node", str(PROGRAM), "--blobHost", "127.0.0.1", "--blobPort", str(self.port), "-l", str(folder),
            "--silent", "--disableTelemetry", "--skipApiVersionCheck",
        ]  # fmt: skip
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def request(self, method: str, path: str, content: bytes = b"", **query: str) -> httpx.Response:
        """A signed request about `/CONTAINER…`, as the service's documentation has it."""
        date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        headers = {"x-ms-date": date, "x-ms-version": VERSION}
        if method == "PUT" and not query:
            headers["x-ms-blob-type"] = "BlockBlob"
        named = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
        query_text = "".join(f"\n{name}:{value}" for name, value in sorted(query.items()))
        length = str(len(content) or "")
        text = f"{method}\n\n\n{length}\n\n\n\n\n\n\n\n\n{named}/{ACCOUNT}/{ACCOUNT}{path}{query_text}"
        signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
        with httpx.Client(trust_env=False) as client:
            return client.request(method, self.endpoint + path, params=query or None, headers=headers, content=content)

    def make_container(self) -> str:
        """A new container's name."""
        name = f"c{uuid4().hex}"
        self.request("PUT", f"/{name}", restype="container").raise_for_status()
        return name


@contextmanager
def azurite(folder: Path) -> Iterator[Azurite]:
    server = Azurite(folder)
    try:
        servers.wait_for(server.port, LOAD_SECONDS)
        yield server
    finally:
        server.child.kill()
        server.child.wait(30)


def options(endpoint: str, container: str, **more: object) -> dict[str, object]:
    return {
        "endpoint": endpoint, "container": container, "account_name": ACCOUNT, "account_key": KEY,
        "root_folder_path": "/", **more,
    }  # fmt: skip
