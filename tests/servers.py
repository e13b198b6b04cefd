"""Real servers on loopback for the tests: rclone's and moto's S3."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

KEYS = {"access_key_id": "AKIDTEST", "secret_access_key": "SECRETTEST"}


def free_port(host: str = "127.0.0.1") -> int:
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


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
def rclone_s3(folder: Path) -> Iterator[str]:
    """`rclone serve s3` on `folder`, whose sub-folders are the buckets; its address."""
    port = free_port()
    binary = Path(sys.executable).parent / "rclone"
    # never --dir-cache-time 0: rclone 1.75 then burns a whole core after its first write
    command = [binary, "serve", "s3", str(folder), "--addr", f"127.0.0.1:{port}", "--vfs-cache-mode", "off"]
    command += ["--auth-key", f"{KEYS['access_key_id']},{KEYS['secret_access_key']}"]
    environment = os.environ | {"RCLONE_CONFIG": str(folder.parent / "rclone.conf")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as child:
        try:
            wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            child.terminate()


@contextmanager
def moto_s3() -> Iterator[str]:
    """moto's S3; its address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def make_bucket(endpoint: str) -> str:
    """A new bucket's name. Made by the server itself, which would not look for a folder made behind its back."""
    import boto3

    bucket = f"b{uuid4().hex}"
    keys = {"aws_access_key_id": KEYS["access_key_id"], "aws_secret_access_key": KEYS["secret_access_key"]}
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket=bucket)
    return bucket


def s3_options(endpoint: str, bucket: str, **more: Any) -> dict[str, Any]:
    return {"endpoint": endpoint, "bucket": bucket, "root_folder_path": "/", "force_path_style": True, **KEYS, **more}
