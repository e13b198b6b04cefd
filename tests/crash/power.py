"""A disk whose power can be cut: an image file on a loop device. Data that was not written back is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOOLS = ("losetup", "mkfs.ext4", "e2fsck", "mount", "umount")


def find_missing() -> str:
    """Why no disk can be made here; "" where one can."""
    if os.geteuid() != 0:
        return "only root can mount a disk"
    missing = [name for name in TOOLS if not shutil.which(name)]
    if missing:
        return f"there is no {', '.join(missing)}"
    probe = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else "there is no loop device"


class PowerDisk:
    """A mounted disk. The kernel writes to it only what it is asked to: its journal waits for five minutes."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.image, self.root = folder / "image", folder / "disk"
        self._folder = folder
        self.root.mkdir(parents=True)
        with self.image.open("wb") as file:
            file.truncate(megabytes << 20)
        _run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(self.image))
        _run("mount", "-o", "loop,commit=300", str(self.image), str(self.root))
        os.sync()

    def cut_power(self) -> Path:
        """Return the content of the disk, as a copy of the image taken now: dirty pages of the mounted file system are
        not in it.

        The loop device writes into the pages of the image file, which is what a copy of that reads.
        """
        cut = self._folder / "cut"
        _run("cp", "--sparse=always", str(self.image), str(cut))
        return cut

    @contextmanager
    def after_power_cut(self, cut: Path) -> Iterator[Path]:
        """The disk as it comes up again."""
        checked = subprocess.run(["e2fsck", "-fy", str(cut)], capture_output=True, text=True, check=False)
        assert checked.returncode in (0, 1), checked.stdout
        root = self._folder / "again"
        root.mkdir()
        _run("mount", "-o", "loop,ro", str(cut), str(root))
        try:
            yield root
        finally:
            _run("umount", str(root))

    def close(self) -> None:
        _run("umount", "--lazy", str(self.root))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
