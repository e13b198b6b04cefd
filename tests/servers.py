"""Real servers on loopback for the tests: rclone's and moto's S3, download tools."""

from __future__ import annotations

import base64
import hashlib
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote
from uuid import uuid4
from weakref import finalize

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


def wait_for(port: int, seconds: float = 20.0) -> None:
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
def rclone_s3(folder: Path, *options: str) -> Iterator[str]:
    """`rclone serve s3` on `folder`, whose sub-folders are the buckets; its address."""
    port = free_port()
    binary = Path(sys.executable).parent / "rclone"
    # never --dir-cache-time 0: rclone 1.75 then burns a whole core after its first write
    command = [binary, "serve", "s3", str(folder), "--addr", f"127.0.0.1:{port}", "--vfs-cache-mode", "off"]
    command += ["--auth-key", f"{KEYS['access_key_id']},{KEYS['secret_access_key']}", *options]
    environment = os.environ | {"RCLONE_CONFIG": str(folder.parent / "rclone.conf")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as child:
        try:
            wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            child.terminate()


@contextmanager
def moto_s3() -> Iterator[str]:
    """moto's S3, and its other services; its address."""
    from moto.s3.responses import S3Response
    from moto.server import ThreadedMotoServer

    list_uploads = S3Response.list_multipart_uploads

    def list_uploads_of_now(response: Any) -> Any:
        status, headers, text = list_uploads(response)
        return status, headers, text.replace("2010-11-10T20:48:33", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}")

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        # moto says that all of them began in 2010
        with patch.object(S3Response, "list_multipart_uploads", list_uploads_of_now):
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


def make_bucket(endpoint: str) -> str:
    """A new bucket's name. Made by the server itself, which would not look for a folder made behind its back."""
    bucket = f"b{uuid4().hex}"
    make_client("s3", endpoint).create_bucket(Bucket=bucket)
    return bucket


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
