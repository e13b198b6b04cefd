"""What a download tool promises: it takes an address, saves into a folder of this machine, and says how far it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Status:
    """How far a download is; `have` and `total` in bytes, a total of 0 is unknown.

    `token` is the one to ask with from now on: a torrent's description is one download, its content the next.
    `done`: every byte is in the folder. `seeding`, only together with `done`: the tool still gives the files to
    others for a while, so they must stay where they are; `finish` is for later. `stays`, only together with `done`:
    the tool will give them to others without an end, so the folder is the tool's from now on; copy, clear nothing.
    `failed`: why the download is over without its files, fit for the user; "" while there is hope.
    `text`: the state as clients show it.
    """

    token: str
    done: bool = False
    have: int = 0
    total: int = 0
    text: str = ""
    failed: str = ""
    seeding: bool = False
    stays: bool = False


class Tool(ABC):
    """A program beside this service that downloads. Unreachable when it does not answer: worth asking again."""

    name: ClassVar[str]

    @abstractmethod
    async def version(self) -> str:
        """The program's version; Problem says why it cannot be used."""

    @abstractmethod
    async def begin(self, url: str, folder: str, key: str) -> str:
        """Start to save `url` into `folder`, an absolute path of this machine; the token of the download.

        Asked again with the same `key`, it answers the token of the download that runs or is done already; one
        that has failed starts over. Problem for an address that the tool or the administrator refuses.
        """

    @abstractmethod
    async def look(self, token: str) -> Status:
        """How far it is."""

    @abstractmethod
    async def stop(self, token: str) -> None:
        """End and forget a download; fine when it is gone. What it has saved so far stays in its folder."""

    @abstractmethod
    async def finish(self, token: str) -> None:
        """Forget a download that is done, unless it `stays`; its files stay in either case."""
