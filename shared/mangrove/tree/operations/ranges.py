"""Names found in a folder of any size by the ranges of its listing that they lie in.

It costs no more calls than the folder has pages, nor more than there are names, but for a few.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial

from mangrove.core import deadlines
from mangrove.core.chunked import iterate_chunked
from mangrove.core.concurrency import gather_bounded
from mangrove.core.paths import TreePath
from mangrove.drivers.base import Driver, Entry, get_sort_key

AT_ONCE = 16  # ranges that are read side by side
SHARE = 256  # names for which another one is worth it
WHOLE_PAGE, SHORT_PAGE = 1000, 100  # entries; short where names are far from each other
DENSE = 4  # names that make a whole page worth it


class NotInOrder(Exception):
    """The storage does not keep to the order that it promises."""


async def find_in_ranges(driver: Driver, path: TreePath, names: Sequence[str]) -> dict[str, Entry]:
    """Those of the names that the folder has, a file before a folder of its name; NotInOrder."""
    ordered = sorted(names)
    count = min(AT_ONCE, -(-len(ordered) // SHARE))
    size = -(-len(ordered) // count)
    shares = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    found = await gather_bounded([partial(_find_share, driver, path, share) for share in shares], AT_ONCE)
    return {name: entry for one in found for name, entry in one.items()}


async def _find_share(driver: Driver, path: TreePath, names: Sequence[str]) -> dict[str, Entry]:
    wanted, found = set(names), dict[str, Entry]()
    keys = sorted([*names, *(f"{name}/" for name in names)])  # of a file, and of a folder of that name
    position, last, next_start, most = 0, "", "", WHOLE_PAGE
    while position < len(keys):
        deadlines.check()
        before, is_first = position, not next_start
        after = max(_get_key_before(keys[position]), last)
        page = await (driver.list_range(path, after, most) if is_first else driver.list_page(path, next_start))
        listed = [get_sort_key(entry) for entry in page.entries]
        if listed and min(listed) < (after if is_first else last):
            raise NotInOrder
        async for entry in iterate_chunked(page.entries):
            if entry.name in wanted and not (entry.is_dir and entry.name in found):
                found[entry.name] = entry
        if not page.next_start:
            break
        last = max(listed, default=last)
        position = bisect_right(keys, last, position)
        most = WHOLE_PAGE if position - before >= 2 * DENSE else SHORT_PAGE
        while position < len(keys) and keys[position].removesuffix("/") in found:
            position += 1
        next_start = page.next_start if position == before else ""
    return found


def _get_key_before(key: str) -> str:
    """A key that comes before this one, with as few as possible between the two."""
    letter = ord(key[-1]) - 1
    is_plain = letter >= ord(" ") and letter != 0x7F and not 0xD800 <= letter <= 0xDFFF
    return key[:-1] + (chr(letter) if is_plain else "")
