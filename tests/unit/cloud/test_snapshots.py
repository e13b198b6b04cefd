"""SnapStart: two processes that start from one memory image share no connection and no random numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from mangrove.standalone import template
from tests import servers
from tests.support.engine import engine

RESTORES = 2
PROGRAM = f"""
import json, os, random, socket, ssl, sys
from snapshot_restore_py import get_after_restore, get_before_snapshot
from mangrove.core import aws
from mangrove.records.store import encryption
from mangrove.web.application import Application
from mangrove.web.lambda_handler import make_lambda_handler

def list_sockets():
    names = [f"/proc/self/fd/{{name}}" for name in os.listdir("/proc/self/fd")]
    links = [os.readlink(name) for name in names if os.path.islink(name)]
    return [link for link in links if link.startswith("socket:")]

client = aws.create_client("dynamodb")
client.list_tables()
make_lambda_handler(Application())
opened = list_sockets()
for hook, arguments, keywords in get_before_snapshot():
    hook(*arguments, **keywords)
image = {{"opened": opened, "kept": list_sockets(), "restores": []}}
state = random.getstate()
for _ in range({RESTORES}):
    reader, writer = os.pipe()
    if os.fork() == 0:
        random.setstate(state)  # Python seeds a forked process; a restored one has the state of the image
        for hook, arguments, keywords in get_after_restore():
            hook(*arguments, **keywords)
        client.list_tables()
        numbers = [random.random() for _ in range(3)]
        nonces = [encryption.encrypt("text", b"context")[: encryption.NONCE_BYTES].hex() for _ in range(3)]
        restored = {{"numbers": numbers, "nonces": nonces, "sockets": list_sockets(), "tls": ssl.RAND_bytes(8).hex()}}
        os.write(writer, json.dumps(restored).encode())
        os._exit(0)
    os.close(writer)
    image["restores"].append(json.loads(os.read(reader, 65536)))
    os.wait()
print(json.dumps(image))
"""


def run(tmp_path: Path, endpoint: str) -> dict[str, Any]:
    key = tmp_path / "key"
    key.write_text("0" * 64)
    environment = os.environ | {
        "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start", "AWS_LAMBDA_FUNCTION_NAME": "site",
        "MANGROVE_KEY_FILE": str(key), "AWS_ENDPOINT_URL_DYNAMODB": endpoint, "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
    }  # fmt: skip
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    image: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return image


def test_two_restores_of_an_image_share_no_socket_and_no_random_number(tmp_path: Path) -> None:
    with engine() as endpoint:
        client = servers.make_client("dynamodb", endpoint)
        for table in template.read_tables("mangrove"):
            client.create_table(**table)
        image = run(tmp_path, endpoint)
    assert image["opened"] and not image["kept"], "connections are closed before the snapshot"
    first, second = image["restores"]
    for name in ("numbers", "nonces", "sockets"):
        assert first[name] and not set(first[name]) & set(second[name]), name
    assert first["tls"] != second["tls"]
