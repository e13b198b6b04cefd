"""nginx and Caddy with the files of `packaging/` in front of a service."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import servers
from tests.support.waiting import wait_until

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
HOST = "files.example.test"


def find_program(name: str) -> str | None:
    """Return the path of a program, beside Python or in the system."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin")


@contextmanager
def run_nginx(folder: Path, upstream: str) -> Iterator[str]:
    """Run nginx with its file, without TLS and with other addresses. Yield its address."""
    port = servers.free_port()
    text = (PACKAGING / "nginx.conf").read_text()
    text, listens = re.subn(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", text)
    text, servers_above = re.subn(r"server 127\.0\.0\.1:5244;", f"server {upstream.removeprefix('http://')};", text)
    assert (listens, servers_above) == (1, 1)
    text = re.sub(r"ssl_certificate\w* .*\n", "", text)
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user}daemon off;\nerror_log {folder}/error.log;\npid {folder}/pid;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{text}}}\n"
    )
    yield from _run([str(find_program("nginx")), "-c", str(folder / "nginx.conf"), "-p", str(folder)], port)


@contextmanager
def run_caddy(folder: Path, upstream: str) -> Iterator[str]:
    """Run Caddy with its file, without TLS. Yield its address."""
    port = servers.free_port()
    environment = {
        "DOMAIN": f"http://:{port}", "UPSTREAM": upstream.removeprefix("http://"), "HOME": str(folder),
        "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder),
    }  # fmt: skip
    text = "{\n\tadmin off\n}\n" + (PACKAGING / "Caddyfile").read_text()
    (folder / "Caddyfile").write_text(text)
    command = [str(find_program("caddy")), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    yield from _run(command, port, environment)


def _run(command: list[str], port: int, environment: dict[str, str] | None = None) -> Iterator[str]:
    known = os.environ | (environment or {})
    process = subprocess.Popen(command, env=known, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: process.poll() is not None or _is_open(port))
        assert process.poll() is None, "the proxy does not start"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(120)


def _is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


PROXIES = {"nginx": run_nginx, "caddy": run_caddy}
