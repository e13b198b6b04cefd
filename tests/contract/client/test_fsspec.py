"""fsspec's own tests on the file system `mangrove://`, in front of a running service."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from uuid import uuid4

import pytest
from fsspec.tests import abstract

from mangrove.client.filesystem import MangroveFileSystem
from tests.support.service import Service, run_forked


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_forked(tmp_path_factory.mktemp("fsspec")) as service:
        yield service


@pytest.fixture(scope="module")
def file_system(service: Service) -> Iterator[MangroveFileSystem]:
    token = service.client().token
    file_system = MangroveFileSystem(address=service.address, token=token, skip_instance_cache=True)
    yield file_system
    file_system.client.close()


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, file_system: MangroveFileSystem) -> MangroveFileSystem:
        return file_system

    @pytest.fixture
    def fs_path(self) -> str:
        return f"/files/{uuid4().hex}"

    @pytest.fixture
    def fs_join(self) -> object:
        return posixpath.join


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    """Copies within the service."""


class TestGet(abstract.AbstractGetTests, Fixtures):
    """Copies to the local disk."""


class TestPut(abstract.AbstractPutTests, Fixtures):
    """Copies from the local disk."""


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    """Writes of bytes."""


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    """Open files."""


def test_move_of_a_folder_takes_its_files_along(file_system: MangroveFileSystem) -> None:
    folder = f"/files/{uuid4().hex}"
    file_system.pipe_file(f"{folder}/source/below/a.txt", b"a")
    file_system.mv(f"{folder}/source", f"{folder}/target", recursive=True)
    assert file_system.find(folder) == [f"{folder}/target/below/a.txt"]


def test_file_is_written_read_and_listed(file_system: MangroveFileSystem) -> None:
    path = f"/files/{uuid4().hex}/a.bin"
    content = bytes(range(256)) * 40_000  # more than one chunk, and than one request takes
    with file_system.open(path, "wb") as file:
        for start in range(0, len(content), 1 << 20):
            file.write(content[start : start + (1 << 20)])
    assert file_system.info(path)["size"] == len(content)
    with file_system.open(path) as file:
        file.seek(1_000_003)
        assert file.read(5) == content[1_000_003:1_000_008]
    assert file_system.cat_file(path, -7) == content[-7:]
    assert file_system.ls(posixpath.dirname(path), detail=False) == [path]


def test_failures_are_errors_of_the_operating_system(file_system: MangroveFileSystem, service: Service) -> None:
    with pytest.raises(FileNotFoundError):
        file_system.info("/files/no such file")
    file_system.pipe_file("/files/folder/a.txt", b"a")
    with pytest.raises(OSError, match="not empty"):
        file_system.rmdir("/files/folder")
    with pytest.raises(FileExistsError):
        file_system.pipe_file("/files/folder/a.txt", b"b", mode="create")
    assert file_system.cat_file("/files/folder/a.txt") == b"a"
    stranger = MangroveFileSystem(address=service.address, token="wrong", skip_instance_cache=True)
    with pytest.raises(PermissionError):
        stranger.ls("/files")
    stranger.client.close()


def test_wrong_and_dead_addresses_are_named() -> None:
    with pytest.raises(OSError, match="is not an address"):
        MangroveFileSystem(address="files.example.org", skip_instance_cache=True)
    dead = MangroveFileSystem(address="http://127.0.0.1:9", skip_instance_cache=True)
    with pytest.raises(OSError, match="does not answer"):
        dead.ls("/")
