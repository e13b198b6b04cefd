"""WebDAV beside the interface's own routes, with one client (curl) for both."""

from __future__ import annotations

import statistics
import subprocess
import time

from bench.doors import make_source
from bench.environment import Environment
from bench.table import work

ROUNDS = 3
USER, PASSWORD, PERMISSION = "dav", "a-long-password", 0x3FF
NAMES = (
    '<propfind xmlns="DAV:"><prop><displayname/><getlastmodified/><getcontentlength/><resourcetype/></prop></propfind>'
)


def _sign_up(env: Environment) -> list[str]:
    """curl's words for who asks."""
    if "webdav user" not in env.kept:
        env.client.ok(
            "/api/admin/user/create", username=USER, password=PASSWORD, base_path="/", permission=PERMISSION
        )  # fmt: skip
        env.kept["webdav user"] = 1
    return ["-u", f"{USER}:{PASSWORD}"]


def _measure(env: Environment, *words: str) -> float:
    """Seconds of one request, the median of ROUNDS after a first one."""
    taken = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        subprocess.run(["curl", "-s", "-f", "-o", "/dev/null", *words], check=True)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


@work("WebDAV put of a large file, Local", "MB/s")
def put_webdav(env: Environment) -> float:
    url = f"{env.service.address}/dav/files/webdav.bin"
    return env.size / 1e6 / _measure(env, *_sign_up(env), "-T", str(make_source(env)), url)


@work("fs/put of the same", "MB/s")
def put_plainly(env: Environment) -> float:
    words = ["-H", f"Authorization: {env.token()}", "-H", "File-Path: /files/webdav.bin", "-T", str(make_source(env))]
    return env.size / 1e6 / _measure(env, *words, f"{env.service.address}/api/fs/put")


@work("WebDAV get of a large file, Local", "MB/s")
def get_webdav(env: Environment) -> float:
    return env.size / 1e6 / _measure(env, *_sign_up(env), f"{env.service.address}/dav/files/webdav.bin")


@work("/p of the same", "MB/s")
def get_plainly(env: Environment) -> float:
    return env.size / 1e6 / _measure(env, env.client.ok("/api/fs/get", path="/files/webdav.bin")["raw_url"])


@work("PROPFIND of 10,000 entries, warm", "s", most=0.3)
def propfind(env: Environment) -> float:
    words = ["-X", "PROPFIND", "-H", "Depth: 1", "-d", f'<propfind xmlns="DAV:"><prop>{NAMES}</prop></propfind>']
    return _measure(env, *_sign_up(env), *words, f"{env.service.address}/dav{env.local(10_000)}")
