"""The options of a Local storage."""

from __future__ import annotations

from mangrove.core.problems import StorageProblem
from mangrove.drivers.options import TrashOptions, option

KEEP_DELETED = "delete permanently"


class LocalOptions(TrashOptions):
    root_folder_path: str = option("/", required=True)
    directory_size: bool = option(False, help="This might impact host performance")
    thumbnail: bool = option(required=True, help="enable thumbnail")
    thumb_cache_folder: str = option()
    thumb_concurrency: str = option("16", help="How many thumbnails are made at the same time")
    video_thumb_pos: str = option(
        "20%", help="Where in a video its thumbnail is taken: a number means seconds, with % a share of the length"
    )
    show_hidden: bool = option(True, help="show hidden directories and files")
    mkdir_perm: str = option("777")
    recycle_bin_path: str = option(
        KEEP_DELETED, help="path to recycle bin, delete permanently if empty or keep 'delete permanently'"
    )


def parse_mode(text: str) -> int:
    """The permissions of new folders, from their octal form."""
    try:
        return int(text, 8)
    except ValueError:
        raise StorageProblem(f'mkdir_perm: "{text[:40]}" is no octal number') from None


def check_video_position(text: str) -> None:
    """Refuse what is neither seconds nor a share with %."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise StorageProblem(f"invalid video_thumb_pos value: {text[:40]}") from None
    if value < 0 or (text.endswith("%") and value > 100):
        raise StorageProblem(f"invalid video_thumb_pos value: {text[:40]}")
