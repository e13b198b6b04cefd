"""WebDAV servers on loopback: Apache, nginx with dav-ext, wsgidav and rclone."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.servers import free_port, wait_for
from tests.support.proc import stop_group

USER, PASSWORD = "me", "hush hush"
REALM = "files"
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
APACHE_MODULES = Path("/usr/lib/apache2/modules")
NGINX_MODULES = Path("/usr/lib/nginx/modules")


def find_program(name: str) -> str | None:
    return shutil.which(name, path=_PATH)


def find_missing(program: str) -> str:
    """Why tests with a server are left out; "" when it is installed."""
    needed = {"apache2": APACHE_MODULES / "mod_dav_fs.so", "nginx": NGINX_MODULES / "ngx_http_dav_ext_module.so"}
    is_there = find_program(program) and needed[program].exists()
    return "" if is_there else f"{program} with WebDAV is not installed"


class _Child:
    """A process that listens on a port."""

    def __init__(self, command: list[str], port: int) -> None:
        self._command, self._port = command, port
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        wait_for(self._port)

    def stop(self, *, kill: bool = False) -> None:
        """With `kill`, as a crash: it closes nothing."""
        self.signal(signal.SIGKILL if kill else signal.SIGTERM)
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """To the process and those that it started."""
        os.killpg(self.process.pid, number)

    def freeze(self) -> None:
        """Have all of them stand still until they are signalled to go on."""
        stop_group(self.process.pid)

    def restart(self) -> None:
        self.stop()
        self.start()


@dataclass
class DavServer:
    """`files`: the folder that it serves; `child`: its process, which can be stopped and started."""

    address: str
    files: Path
    child: _Child
    scheme: str = "Basic"

    def make_folder(self) -> str:
        """A new folder at the root, made by the server itself, which may not look for what is made behind its back."""
        name = f"d{secrets.token_hex(8)}"
        auth = httpx.DigestAuth(USER, PASSWORD) if self.scheme == "Digest" else httpx.BasicAuth(USER, PASSWORD)
        httpx.request("MKCOL", f"{self.address}/{name}/", auth=auth, trust_env=False, timeout=60).raise_for_status()
        return name

    def make_options(self, name: str = "", **more: Any) -> dict[str, Any]:
        """The options of a storage on a folder of `make_folder`."""
        return {
            "address": self.address, "username": USER, "password": PASSWORD, "root_folder_path": f"/{name}", **more
        }  # fmt: skip


@contextmanager
def _open_folder() -> Iterator[Path]:
    """A folder that a server's own user may enter, with `files` inside, which everybody may change."""
    with tempfile.TemporaryDirectory(prefix="dav-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        for below in ("files", "state"):
            (folder / below).mkdir()
            (folder / below).chmod(0o777)
        yield folder


@contextmanager
def _run(command: list[str], port: int) -> Iterator[_Child]:
    child = _Child(command, port)
    try:
        yield child
    finally:
        child.signal(signal.SIGCONT)
        child.stop()


def _write_passwords(folder: Path) -> None:
    """The files `basic` and `digest`, as Apache and nginx read them."""
    key = hashlib.md5(f"{USER}:{REALM}:{PASSWORD}".encode()).hexdigest()
    (folder / "digest").write_text(f"{USER}:{REALM}:{key}\n")
    sealed = b64encode(hashlib.sha1(PASSWORD.encode()).digest()).decode()
    (folder / "basic").write_text(f"{USER}:{{SHA}}{sealed}\n")


@contextmanager
def apache(scheme: str = "Basic", *, more: str = "", port: int = 0) -> Iterator[DavServer]:
    """Apache with mod_dav_fs; `scheme` Basic or Digest; `more` lines of its configuration."""
    port = port or free_port()
    modules = ["mpm_event", "authz_core", "authn_core", "authn_file", "authz_user", "mime", "dav", "dav_fs", "dir"]
    modules += ["auth_digest"] if scheme == "Digest" else ["auth_basic"]
    with _open_folder() as folder:
        state, files = folder / "state", folder / "files"
        _write_passwords(folder)
        lines = [f"LoadModule {name}_module {APACHE_MODULES}/mod_{name}.so" for name in modules]
        lines += ["User www-data", "Group www-data"] if os.geteuid() == 0 else []
        lines += [
            f"ServerRoot {folder}", f"PidFile {state}/pid", f"Listen 127.0.0.1:{port}", "ServerName localhost",
            f"ErrorLog {state}/error.log", f"DavLockDB {state}/locks", f"DocumentRoot {files}", "TypesConfig /dev/null",
            "KeepAliveTimeout 30", "MaxKeepAliveRequests 0", "ServerLimit 2", "ThreadsPerChild 64",
            "MaxRequestWorkers 128", "StartServers 1", f"Mutex file:{state}",
            f"<Directory {files}>", "Dav On", f"AuthType {scheme}", f'AuthName "{REALM}"',
            "AuthDigestProvider file" if scheme == "Digest" else "AuthBasicProvider file",
            f"AuthUserFile {folder}/{scheme.lower()}", "Require valid-user", "Options FollowSymLinks",
            "AllowOverride None",
            "</Directory>", more,
        ]  # fmt: skip
        config = folder / "httpd.conf"
        config.write_text("\n".join(lines) + "\n")
        command = [find_program("apache2") or "apache2", "-D", "FOREGROUND", "-f", str(config)]
        with _run(command, port) as child:
            yield DavServer(f"http://127.0.0.1:{port}", files, child, scheme)


NGINX = """
load_module {modules}/ngx_http_dav_ext_module.so;
daemon off;
worker_processes 1;
pid {state}/pid;
error_log {state}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_max_body_size 0;
  client_body_temp_path {state}/body;
  proxy_temp_path {state}/proxy; fastcgi_temp_path {state}/fastcgi;
  uwsgi_temp_path {state}/uwsgi; scgi_temp_path {state}/scgi;
  server {{
    listen 127.0.0.1:{port};
    root {files};
    location / {{
      dav_methods PUT DELETE MKCOL COPY MOVE;
      dav_ext_methods PROPFIND OPTIONS;
      dav_access user:rw group:rw all:rw;
      auth_basic "{realm}";
      auth_basic_user_file {folder}/basic;
    }}
  }}
}}
"""


@contextmanager
def nginx() -> Iterator[DavServer]:
    """nginx with its own PUT and the PROPFIND of dav-ext."""
    port = free_port()
    with _open_folder() as folder:
        _write_passwords(folder)
        config = folder / "nginx.conf"
        user = "user www-data;\n" if os.geteuid() == 0 else ""
        filled = NGINX.format(
            modules=NGINX_MODULES, state=folder / "state", files=folder / "files", port=port, folder=folder, realm=REALM
        )
        config.write_text(user + filled)
        with _run([find_program("nginx") or "nginx", "-c", str(config)], port) as child:
            yield DavServer(f"http://127.0.0.1:{port}", folder / "files", child)


WSGIDAV = """
import sys
from cheroot import wsgi
from wsgidav.wsgidav_app import WsgiDAVApp
root, port, scheme, user, password = sys.argv[1:]
app = WsgiDAVApp({
    "provider_mapping": {"/": root},
    "simple_dc": {"user_mapping": {"*": {user: {"password": password}}}},
    "http_authenticator": {
        "accept_basic": scheme == "Basic", "accept_digest": scheme == "Digest", "default_to_digest": scheme == "Digest",
    },
    "verbose": 0, "logging": {"enable": False},
})
server = wsgi.Server(("127.0.0.1", int(port)), app, numthreads=24)
try:
    server.start()
finally:
    server.stop()
"""


@contextmanager
def wsgidav(scheme: str = "Basic") -> Iterator[DavServer]:
    """wsgidav under cheroot, in a process of its own."""
    port = free_port()
    with _open_folder() as folder:
        script = folder / "serve.py"
        script.write_text(WSGIDAV)
        command = [sys.executable, str(script), str(folder / "files"), str(port), scheme, USER, PASSWORD]
        with _run(command, port) as child:
            yield DavServer(f"http://127.0.0.1:{port}", folder / "files", child, scheme)


@contextmanager
def rclone_dav() -> Iterator[DavServer]:
    """rclone's WebDAV server."""
    port = free_port()
    with _open_folder() as folder:
        # never --dir-cache-time 0: see tests.servers.rclone
        command = [str(Path(sys.executable).parent / "rclone"), "serve", "webdav", str(folder / "files")]
        command += ["--addr", f"127.0.0.1:{port}", "--user", USER, "--pass", PASSWORD, "--vfs-cache-mode", "off"]
        with _run([*command, "--config", str(folder / "rclone.conf")], port) as child:
            yield DavServer(f"http://127.0.0.1:{port}", folder / "files", child)
