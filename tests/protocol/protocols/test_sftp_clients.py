"""The SFTP door with the clients that people use."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko
import pytest

from tests import servers
from tests.protocol.protocols.people import Place, run

pytestmark = [
    pytest.mark.xdist_group("doors"),
    pytest.mark.skipif(shutil.which("sftp") is None, reason="OpenSSH's clients are not here"),
]


@pytest.fixture(scope="module")
def ann(place: Place) -> Iterator[str]:
    place.create_user("ann")
    yield "ann"


def test_openssh_does_what_people_do(place: Place, ann: str, tmp_path: Path) -> None:
    content = os.urandom(300_000)
    (tmp_path / "up").write_bytes(content)
    done = place.run_sftp(ann, "mkdir /disk/docs", f"put {tmp_path}/up /disk/docs/a.bin")
    assert done.returncode == 0, done.stderr
    assert (place.root / "docs/a.bin").read_bytes() == content
    done = place.run_sftp(
        ann, 'rename /disk/docs/a.bin "/disk/docs/b ü.bin"', "ls -la /disk/docs", "df /disk",
        f'get "/disk/docs/b ü.bin" {tmp_path}/down', "ls /",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "b ü.bin" in done.stdout and "300000" in done.stdout
    assert (tmp_path / "down").read_bytes() == content
    done = place.run_sftp(ann, "rmdir /disk/docs")
    assert done.returncode != 0 and (place.root / "docs/b ü.bin").exists()
    done = place.run_sftp(ann, 'rm "/disk/docs/b ü.bin"', "rmdir /disk/docs")
    assert done.returncode == 0, done.stderr
    assert not (place.root / "docs").exists()


def test_openssh_goes_on_with_an_upload_and_a_download_that_broke_off(place: Place, ann: str, tmp_path: Path) -> None:
    content = os.urandom(400_000)
    (tmp_path / "whole").write_bytes(content)
    (place.root / "part").write_bytes(content[:150_000])
    (tmp_path / "down").write_bytes(content[:170_000])
    done = place.run_sftp(ann, f"reput {tmp_path}/whole /disk/part", f"reget /disk/part {tmp_path}/down")
    assert done.returncode == 0, done.stderr
    assert (place.root / "part").read_bytes() == content == (tmp_path / "down").read_bytes()


def test_scp_replaces_a_longer_file_and_keeps_times(place: Place, ann: str, tmp_path: Path) -> None:
    (place.root / "kept").write_bytes(b"x" * 50_000)
    source = tmp_path / "kept"
    source.write_bytes(b"short")
    os.utime(source, (1_600_000_000, 1_600_000_000))
    command = ["scp", "-p", "-s", "-P", str(place.port), *place.make_options(ann)]
    done = run([*command, str(source), f"{ann}@127.0.0.1:/disk/kept"])
    assert done.returncode == 0, done.stderr
    assert (place.root / "kept").read_bytes() == b"short"
    assert int((place.root / "kept").stat().st_mtime) == 1_600_000_000
    done = run([*command, f"{ann}@127.0.0.1:/disk/kept", str(tmp_path / "back")])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "back").read_bytes() == b"short"


def test_rclone_copies_checks_and_clears(place: Place, ann: str, tmp_path: Path) -> None:
    for number in range(40):
        path = tmp_path / "tree" / f"folder {number % 4}" / f"file {number} ✓.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(number * 500))
    remote = (
        f":sftp,host=127.0.0.1,port={place.port},user={ann},key_file={place.write_key(ann)},shell_type=none:/disk/tree"
    )
    program = str(Path(sys.executable).parent / "rclone")
    for words in (["copy", str(tmp_path / "tree"), remote], ["check", "--download", str(tmp_path / "tree"), remote]):
        done = run([program, "--config", "/dev/null", *words])
        assert done.returncode == 0, done.stderr
    listed = run([program, "--config", "/dev/null", "lsf", "-R", "--files-only", remote]).stdout
    assert len(listed.splitlines()) == 40
    done = run([program, "--config", "/dev/null", "purge", remote])
    assert done.returncode == 0, done.stderr
    assert not (place.root / "tree").exists()


def test_eight_sessions_at_once_carry_64_mb_each_way(place: Place, ann: str, tmp_path: Path) -> None:
    content = os.urandom(8 << 20)
    (tmp_path / "up").write_bytes(content)

    async def work(number: int) -> None:
        async with await place.connect(ann) as connection, connection.start_sftp_client() as client:
            await client.put(str(tmp_path / "up"), f"/disk/many-{number}")
            await client.get(f"/disk/many-{number}", str(tmp_path / f"down-{number}"))

    async def run_all() -> None:
        await asyncio.gather(*(work(number) for number in range(8)))

    asyncio.run(run_all())
    for number in range(8):
        assert (place.root / f"many-{number}").read_bytes() == content == (tmp_path / f"down-{number}").read_bytes()


def test_a_large_folder_is_read_in_pages_with_its_mounts(place: Place, ann: str) -> None:
    (place.root / "wide").mkdir()
    for number in range(3000):
        (place.root / "wide" / f"n{number}").touch()

    async def look() -> tuple[set[str], set[str]]:
        async with await place.connect(ann) as connection, connection.start_sftp_client() as client:
            return {str(name) for name in await client.listdir("/disk/wide")}, set(map(str, await client.listdir("/")))

    wide, root = asyncio.run(look())
    assert wide == {f"n{number}" for number in range(3000)}
    assert root == {"disk", "files"}


def test_paramiko_reads_writes_and_asks_for_checksums(place: Place, ann: str) -> None:
    content = os.urandom(700_000)
    with servers.moto_s3() as endpoint, _connect_paramiko(place, ann) as client:
        addition = servers.s3_options(endpoint, servers.make_bucket(endpoint))
        made = place.admin.ok(
            "/api/admin/storage/create", mount_path="/bucket", driver="S3", addition=json.dumps(addition)
        )
        with client.open("/bucket/in", "wb") as file:
            file.set_pipelined(True)
            file.write(content)
        with client.open("/bucket/in", "rb") as file:
            file.seek(300_000)
            assert file.read(1000) == content[300_000:301_000]
            assert file.check("md5") == hashlib.md5(content).digest()
            with pytest.raises(OSError):
                file.check("md5", 10, 20, 512)
            with pytest.raises(OSError):
                file.check("sha512")
        with client.open("/bucket/in", "wb") as file, pytest.raises(OSError):
            file.check("md5")
        with pytest.raises(OSError):
            client.utime("/bucket/in", (1, 1))  # a bucket keeps no such times
        client.remove("/bucket/in")
        place.admin.ok("/api/admin/storage/delete", params={"id": made["id"]})


@contextmanager
def _connect_paramiko(place: Place, name: str) -> Iterator[paramiko.SFTPClient]:
    with paramiko.SSHClient() as ssh:
        ssh.set_missing_host_key_policy(paramiko.AutoAddPolicy())
        key = paramiko.Ed25519Key.from_private_key_file(str(place.write_key(name)))
        ssh.connect("127.0.0.1", place.port, name, pkey=key, allow_agent=False, look_for_keys=False)
        with ssh.open_sftp() as client:
            yield client
