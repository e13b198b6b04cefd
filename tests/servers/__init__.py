"""Real servers on loopback for the tests: rclone's and moto's S3, download tools."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any
from unittest.mock import patch
from urllib.parse import quote
from uuid import uuid4
from weakref import finalize

from mangrove.core import runtime

KEYS = {"access_key_id": "AKIDTEST", "secret_access_key": "SECRETTEST"}


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nothing listens on, below those that the kernel gives to connections: it stays free for a while."""
    while True:
        port = random.randint(10_000, 30_000)
        try:
            socket.create_server((host, port)).close()
            return port
        except OSError:
            continue  # in use


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that refuses connections. It is taken, so that no server of another test gets it meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def wait_for(port: int, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


@contextmanager
def restartable(open_server: Callable[[], AbstractContextManager[object]]) -> Iterator[Callable[[], None]]:
    """A server that runs meanwhile, at a port of the caller's choice; what stops it and starts it again."""
    with ExitStack() as stack:
        stack.enter_context(open_server())

        def restart() -> None:
            stack.close()
            stack.enter_context(open_server())

        yield restart


@contextmanager
def rclone(protocol: str, folder: Path, *options: str, port: int = 0) -> Iterator[int]:
    """`rclone serve` of a protocol on `folder`; its port, a free one unless given."""
    port = port or free_port()
    binary = Path(sys.executable).parent / "rclone"
    # never --dir-cache-time 0: rclone 1.75 then burns a whole core after its first write
    command = [binary, "serve", protocol, str(folder), "--addr", f"127.0.0.1:{port}", "--vfs-cache-mode", "off"]
    environment = os.environ | {"RCLONE_CONFIG": str(folder.parent / "rclone.conf")}
    with subprocess.Popen([*command, *options], env=environment, stderr=subprocess.DEVNULL) as child:
        try:
            wait_for(port)
            yield port
        finally:
            child.kill()  # asked to end, it would wait for its clients


@contextmanager
def rclone_s3(folder: Path, *options: str, port: int = 0) -> Iterator[str]:
    """rclone's S3 on `folder`, whose subfolders are the buckets; its address."""
    keys = f"{KEYS['access_key_id']},{KEYS['secret_access_key']}"
    with rclone("s3", folder, "--auth-key", keys, *options, port=port) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def moto_s3() -> Iterator[str]:
    """moto's S3, and its other services; its address."""
    from moto import backends
    from moto.s3.responses import S3Response
    from moto.server import ThreadedMotoServer

    list_uploads, answer, deciding = S3Response.list_multipart_uploads, S3Response.key_response, Lock()

    def list_uploads_of_now(response: Any) -> Any:
        status, headers, text = list_uploads(response)
        return status, headers, text.replace("2010-11-10T20:48:33", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}")

    def answer_in_turn(response: Any, request: Any, *args: Any) -> Any:
        """moto checks the condition of a write before it writes: two at once would both succeed."""
        is_conditional = request.method in ("PUT", "POST") and "If-None-Match" in request.headers
        with deciding if is_conditional else nullcontext():
            return answer(response, request, *args)

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it writes a line for every request, which pytest keeps
    modules = list(backends.list_of_moto_modules())  # it lists its folder for every request
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        # moto says that all of them began in 2010
        with (
            patch.object(S3Response, "key_response", answer_in_turn),
            patch.object(S3Response, "list_multipart_uploads", list_uploads_of_now),
            patch.object(backends, "list_of_moto_modules", lambda: modules),
        ):
            host, port = server.get_host_and_port()
            yield f"http://{host}:{port}"
    finally:
        server.stop()


def make_client(service: str, endpoint: str) -> Any:
    """A client of one of AWS's services at `endpoint`, whose connections are closed when nothing refers to it."""
    import boto3

    keys = {"aws_access_key_id": KEYS["access_key_id"], "aws_secret_access_key": KEYS["secret_access_key"]}
    client = boto3.client(service, endpoint_url=endpoint, region_name="us-east-1", **keys)
    finalize(client, client._endpoint.http_session.close)  # `client.close` would refer to the client
    return client


_get_s3 = lru_cache(maxsize=2)(partial(make_client, "s3"))  # to make a client takes as long as a whole test


def make_bucket(endpoint: str) -> str:
    """A new bucket's name. Made by the server itself, which would not look for a folder made behind its back."""
    bucket = f"b{uuid4().hex}"
    _get_s3(endpoint).create_bucket(Bucket=bucket)
    return bucket


@contextmanager
def hold_s3_clients(endpoint: str) -> Iterator[Callable[[], None]]:
    """The clients of S3 storages at `endpoint` are made once and kept meanwhile; a test that calls what this gives
    shares them."""
    from mangrove.drivers.s3.client import COPY_SECONDS
    from mangrove.drivers.s3.clients import ClientKey, Clients
    from mangrove.drivers.s3.options import S3Options

    options, clients = S3Options(**s3_options(endpoint, "any")), Clients()
    for key in (ClientKey.of(options, endpoint), ClientKey.of(options, endpoint, COPY_SECONDS)):
        clients.take(key)
    try:
        yield lambda: runtime.put(Clients, clients)
    finally:
        clients.close()


def s3_options(endpoint: str, bucket: str, **more: Any) -> dict[str, Any]:
    return {"endpoint": endpoint, "bucket": bucket, "root_folder_path": "/", "force_path_style": True, **KEYS, **more}


@dataclass(frozen=True, slots=True)
class Aria2:
    """A running aria2c; `peers`: the port where it listens for other peers."""

    uri: str
    secret: str
    peers: int


@contextmanager
def aria2(*more: str, secret: str = "hush hush") -> Iterator[Aria2]:
    """aria2c, waiting for calls; `more` are further arguments."""
    port, peers = free_port(), free_port()
    command = ["aria2c", "--no-conf", "--enable-rpc", f"--rpc-listen-port={port}", f"--rpc-secret={secret}", "--quiet"]
    command += ["--enable-dht=false", "--enable-dht6=false", "--bt-enable-lpd=false", f"--listen-port={peers}"]
    with subprocess.Popen([*command, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            wait_for(port)
            yield Aria2(f"http://127.0.0.1:{port}/jsonrpc", secret, peers)
        finally:
            child.kill()


@contextmanager
def qbittorrent(folder: Path, password: str = "hush hush") -> Iterator[str]:
    """qbittorrent-nox without a network of peers, its notice accepted; its address with user and password."""
    port = free_port()
    salt = os.urandom(16)
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 100_000, 64)
    sealed = b":".join((base64.b64encode(salt), base64.b64encode(key))).decode()
    config = folder / "qBittorrent" / "config" / "qBittorrent.conf"
    config.parent.mkdir(parents=True)
    config.write_text(
        "[LegalNotice]\nAccepted=true\n[BitTorrent]\nSession\\DHTEnabled=false\nSession\\LSDEnabled=false\n"
        f"Session\\PeXEnabled=false\nSession\\Port={free_port()}\n[Preferences]\nWebUI\\Address=127.0.0.1\n"
        f'WebUI\\Username=me\nWebUI\\Password_PBKDF2="@ByteArray({sealed})"\nWebUI\\LocalHostAuth=true\n'
    )
    command = ["qbittorrent-nox", f"--profile={folder}", f"--webui-port={port}"]
    environment = os.environ | {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as child:
        try:
            wait_for(port)
            yield f"http://me:{quote(password)}@127.0.0.1:{port}/"
        finally:
            child.kill()
