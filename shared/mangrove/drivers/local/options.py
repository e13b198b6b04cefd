"""The options of a Local storage."""

from __future__ import annotations

from mangrove.core.problems import StorageProblem
from mangrove.drivers.options import TrashOptions, option

KEEP_DELETED = "delete permanently"


class LocalOptions(TrashOptions):
    root_folder_path: str = option("/", required=True)
    directory_size: bool = option(False, help="Show the size of folders. All files below are read, which takes time.")
    thumbnail: bool = option(required=True, help="Show thumbnails.")
    thumb_cache_folder: str = option()
    thumb_concurrency: str = option("16", help="Number of thumbnails that are made concurrently.")
    video_thumb_pos: str = option(
        "20%", help="Position of the thumbnail in a video: seconds, or a percentage of its length with %."
    )
    show_hidden: bool = option(True, help="Show hidden files and folders.")
    watch_disk: bool = option(
        False, help="Watch the folder on the disk: lists and search show changes by other programs within a second."
    )
    mkdir_perm: str = option("777")
    recycle_bin_path: str = option(
        KEEP_DELETED, help="Folder for removed files. Empty or 'delete permanently': removals are final."
    )

    @property
    def watched_folder(self) -> str:
        """The folder of the disk that is watched; "" if it is not."""
        return self.root_folder_path if self.watch_disk else ""


def parse_mode(text: str) -> int:
    """The permissions of new folders, from their octal form."""
    try:
        return int(text, 8)
    except ValueError:
        raise StorageProblem(f'mkdir_perm: "{text[:40]}" is not an octal number') from None


def check_video_position(text: str) -> None:
    """Refuse a text that is neither seconds nor a percentage."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise StorageProblem(f"invalid video_thumb_pos value: {text[:40]}") from None
    if value < 0 or (text.endswith("%") and value > 100):
        raise StorageProblem(f"invalid video_thumb_pos value: {text[:40]}")
