"""Another account of the same machine: it reaches no records and reads no file of the service."""

from __future__ import annotations

import json
import re
import stat
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.accounts import needs_root, run_as_nobody
from tests.support.engine import open_client
from tests.support.namespaces import needs_namespaces
from tests.support.proc import list_children, read_links
from tests.support.service import Client, Service, run_service

USERS = "mangrove-users"
ATTACK = """
def call(address, action, **body):
    headers = {"x-amz-target": "DynamoDB_20120810." + action, "content-type": "application/x-amz-json-1.0"}
    headers["x-amz-date"] = "20260101T000000Z"
    scope = "x/20260101/us-east-1/dynamodb/aws4_request"
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=00"
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("POST", "/", json.dumps(body), headers)
    return json.loads(connection.getresponse().read())

table, username, *addresses = sys.argv[1:]
change = {"role": {"Value": {"N": "2"}, "Action": "PUT"}}
for address in addresses:
    try:
        for user in call(address, "Scan", TableName=table)["Items"]:
            if user["username"]["S"] == username:
                call(address, "UpdateItem", TableName=table, Key={"id": user["id"]}, AttributeUpdates=change)
                print("changed at", address)
    except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
        pass  # no records engine
"""
READ = """
for path in json.loads(sys.argv[1]):
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except PermissionError:
        continue
    except OSError:
        pass  # a socket: it was found, and that is enough
    print(path)
"""


def list_ports(service: Service) -> list[str]:
    """Return the addresses on which the service and its children listen, as the network of the machine knows them:
    `127.0.0.1:5244`."""
    processes = [service.process.pid, *list_children(service.process.pid)]
    links = (link for pid in processes for link in read_links(pid))
    sockets = {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", link))}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [format_address(row[1]) for row in rows if row[3] == "0A" and row[9] in sockets]


def format_address(text: str) -> str:
    """From the kernel's form, the bytes of the host turned round."""
    host, _, port = text.partition(":")
    return f"{'.'.join(str(byte) for byte in reversed(bytes.fromhex(host)))}:{int(port, 16)}"


def read_role(service: Service, username: str) -> str:
    """The role that the records themselves have."""
    with open_client(service.find_records()) as client:
        pages = client.get_paginator("scan").paginate(TableName=USERS)
        (user,) = [row for page in pages for row in page["Items"] if row["username"]["S"] == username]
    return str(user["role"]["N"])


@pytest.fixture
def user(admin: Client) -> str:
    """The name of a new user without rights."""
    name = uuid4().hex
    admin.ok("/api/admin/user/create", username=name, password="pw", base_path="/", role=0)
    return name


@needs_root
@needs_namespaces
def test_other_account_at_service_ports_gets_no_access(service: Service, user: str) -> None:
    ports = list_ports(service)
    assert service.address.removeprefix("http://") in ports
    assert run_as_nobody("http.client, json, sys", ATTACK, USERS, user, *ports) == ""
    assert read_role(service, user) == "0"


@needs_root
def test_another_account_reads_no_file_of_the_data_directory(service: Service, admin: Client, folder: str) -> None:
    assert admin.put(f"{folder}/secret.txt", b"secret")["code"] == 200
    for parent in list(service.data.parents)[:-2]:  # what protects is the data directory, wherever it lies
        parent.chmod(parent.stat().st_mode | 0o011)
    paths = [service.data, *service.data.rglob("*")]
    assert {"key", "records.db", "files", "secret.txt"} <= {path.name for path in paths}
    assert run_as_nobody("json, os, sys", READ, json.dumps([str(path) for path in paths])) == ""


def test_all_in_the_data_directory_is_for_its_owner_alone(tmp_path: Path) -> None:
    with run_service(tmp_path / "data") as service:  # in another one, tests and aria2 write as they like
        admin = service.client()
        assert admin.put("/files/a/b.txt", b"secret")["code"] == 200
        assert admin.put("/files/as task.txt", b"secret", as_task="true")["code"] == 200
        admin.ok("/api/fs/mkdir", path="/files/c")
        admin.ok("/api/fs/copy", src_dir="/files", dst_dir="/files/c", names=["a"])
        paths = [service.data, *service.data.rglob("*")]
        assert service.data / "files" / "a" / "b.txt" in paths
        paths = [path for path in paths if not path.parent.name.startswith("work-")]  # under way in a folder of 0700
        modes = {}
        for path in paths:
            with suppress(FileNotFoundError):  # what the service itself has cleared away meanwhile
                modes[str(path)] = path.lstat().st_mode
        assert str(service.data / "key") in modes
    assert [path for path, mode in modes.items() if mode & 0o077 and not stat.S_ISLNK(mode)] == []
