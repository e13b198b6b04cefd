"""The interface of a download tool: it downloads a URL into a folder of this machine and reports its progress."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class DownloadStatus:
    """The state of a download.

    `downloaded` and `total` in bytes, a total of 0 is unknown. `token`: the one to use from now on (a torrent's
    description is one download, its content the next). `done`: every byte is in the folder. `seeding`, only together
    with `done`: the tool still uploads the files for a while, so they must stay in place, and `remove_completed` must
    wait. `seeds_forever`, only together with `done`: the tool uploads them without an end, so the folder belongs to the
    tool: copy from it, remove nothing. `error`: the reason why the download ended without its files, for the user;
    otherwise "". `text`: the state as clients show it.
    """

    token: str
    done: bool = False
    downloaded: int = 0
    total: int = 0
    text: str = ""
    error: str = ""
    seeding: bool = False
    seeds_forever: bool = False


class DownloadTool(ABC):
    """An external program that downloads.

    Every method raises Unreachable if it does not answer; the caller should retry.
    """

    name: ClassVar[str]

    @abstractmethod
    async def get_version(self) -> str:
        """Return the program's version. Raise Problem with the reason if it cannot be used."""

    @abstractmethod
    async def add(self, url: str, folder: str, key: str) -> str:
        """Start a download of `url` into `folder`, an absolute path of this machine. Return its token.

        Called again with the same `key`, it returns the token of the download that is running or done; a failed one is
        started again. Raise Problem for a URL that the tool or the address policy refuses.
        """

    async def resume(self, token: str, url: str, folder: str, key: str) -> str:
        """Return the token of a download that another process of this service started, as `add`."""
        return token

    @abstractmethod
    async def get_status(self, token: str) -> DownloadStatus:
        """Return the state of a download."""

    @abstractmethod
    async def remove(self, token: str) -> None:
        """Stop and remove a download, known or not. Its files so far stay in the folder."""

    @abstractmethod
    async def remove_completed(self, token: str) -> None:
        """Remove a finished download from the tool, unless it `seeds_forever`; its files stay in either case."""
