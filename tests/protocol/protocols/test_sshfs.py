"""The tree as a folder of this machine: sshfs, and rclone's own checks of a remote."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.protocol.protocols.people import Place, run
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("doors"), pytest.mark.long]


@pytest.fixture(scope="module")
def mounted(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if shutil.which("sshfs") is None or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("sshfs, or the kernel's part of it, is not here")
    place.create_user("sue")
    folder = tmp_path_factory.mktemp("sshfs")
    options = place.make_options("sue")
    done = run(["sshfs", "-p", str(place.port), *options, "sue@127.0.0.1:/disk", str(folder)])
    if done.returncode != 0:
        pytest.skip(f"sshfs does not mount here: {done.stderr.strip()[:200]}")
    yield folder
    subprocess.run(["fusermount3", "-u", str(folder)], check=True, timeout=60)


def test_a_mounted_tree_is_worked_in_as_a_folder(place: Place, mounted: Path) -> None:
    """A file that is closed here is there a moment later: the kernel does not wait for the answer."""

    def check(content: bytes, path: str = "work/a") -> None:
        assert (mounted / path).read_bytes() == content
        wait_until(lambda: (place.root / path).exists() and (place.root / path).read_bytes() == content)

    content = os.urandom(3_000_000)
    work = mounted / "work"
    work.mkdir()
    (work / "a").write_bytes(content)
    check(content)
    (work / "a").write_bytes(b"shorter")  # the kernel cuts it first, by its path
    check(b"shorter")
    with (work / "a").open("ab") as file:
        file.write(b" and longer")
    check(b"shorter and longer")
    with (work / "a").open("r+b") as file:
        file.seek(2)
        file.write(b"OR")
        file.truncate(9)
    check(b"shORter a")
    os.truncate(work / "a", 4)
    check(b"shOR")
    os.utime(work / "a", (1_500_000_000, 1_500_000_000))
    assert int((place.root / "work/a").stat().st_mtime) == 1_500_000_000
    (work / "a").rename(work / "b")
    (work / "c").write_bytes(b"c")
    os.replace(work / "c", work / "b")
    check(b"c", "work/b")
    assert [path.name for path in work.iterdir()] == ["b"]
    with pytest.raises(OSError):
        (work / "link").symlink_to("b")
    with pytest.raises(OSError):
        work.rmdir()
    assert shutil.disk_usage(mounted).total > 0
    shutil.copytree(work, mounted / "copy")
    check(b"c", "copy/b")
    shutil.rmtree(work)
    assert not (place.root / "work").exists()


def test_rclone_finds_out_what_names_and_times_the_door_can_carry(place: Place, tmp_path: Path) -> None:
    place.create_user("rob")
    key = place.write_key("rob")
    remote = f":sftp,host=127.0.0.1,port={place.port},user=rob,key_file={key},shell_type=none:/disk/info"
    program = str(Path(sys.executable).parent / "rclone")
    (place.root / "info").mkdir()
    words = ["test", "info", "--check-length=false", "--check-control=false", "--check-streaming"]
    done = run([program, "--config", "/dev/null", *words, "--write-json", str(tmp_path / "found"), remote])
    assert done.returncode == 0, done.stderr
    assert '"CanStream": true' in (tmp_path / "found").read_text(), (tmp_path / "found").read_text()
    wait_until(lambda: not place.service.find_unfinished(place.root))
