"""The driver suite on real WebDAV servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import NamedTuple

import pytest

from mangrove.drivers.base import Driver
from tests.contract.drivers import file_cases, suite, write_cases
from tests.contract.drivers.test_suite import start_driver
from tests.servers import dav
from tests.servers.dav import DavServer

pytestmark = pytest.mark.xdist_group("webdav")
# a server that does not redirect has no link, and that is a failure with its own text
NO_LINK = {"a_link_is_an_address_of_the_file"}
SIGNED = (file_cases, write_cases)  # the same server, signed in to in another way


class Kind(NamedTuple):
    """A server, and the cases that it cannot pass."""

    open: Callable[[], AbstractContextManager[DavServer]]
    but: set[str] = NO_LINK
    missing: str = ""
    modules: tuple[ModuleType, ...] = suite.MODULES  # whose cases run

    def list_cases(self) -> list[str]:
        of_modules = {name for module in self.modules for name in vars(module)}
        return [case for case in suite.list_cases("WebDav", self.but) if case in of_modules]


# it cuts paths off at ; and ?, so such names are refused
NOT_ON_WSGIDAV = NO_LINK | {"names_of_all_kinds_survive", "moves_and_copies_take_unusual_names_of_files_and_folders"}
KINDS = {
    "Apache": Kind(dav.apache, missing=dav.find_missing("apache2")),
    "Apache-Digest": Kind(lambda: dav.apache("Digest"), missing=dav.find_missing("apache2"), modules=SIGNED),
    # it lists no name that begins with a dot
    "nginx": Kind(
        dav.nginx,
        NO_LINK
        | {
            "names_with_dots_are_taken_as_they_are",
            "names_of_devices_and_settings_are_kept_or_refused",
            "folders_take_the_names_that_files_take",
        },
        dav.find_missing("nginx"),
    ),
    "wsgidav": Kind(dav.wsgidav, NOT_ON_WSGIDAV),
    "wsgidav-Digest": Kind(lambda: dav.wsgidav("Digest"), NOT_ON_WSGIDAV, modules=SIGNED),
    "rclone": Kind(
        dav.rclone_dav,
        NO_LINK
        | {
            "removals_at_once_agree",  # it answers 500 to who looks at what another one removes
            "names_that_are_too_long_are_kept_or_refused",  # it then breaks off the listing of the folder
            # it takes two Unicode forms of a name for one
            "folders_take_the_names_that_files_take",
            "folders_with_composed_and_decomposed_names_are_kept_apart_or_refused",
        },
    ),
}


DEFAULT_SERVERS = ("rclone", "wsgidav-Digest")  # the others take minutes: `make crash`


def list_params() -> Iterator[object]:
    """Server by server, each with its cases."""
    for name, kind in KINDS.items():
        marks = [pytest.mark.driver("WebDav", name), pytest.mark.skipif(bool(kind.missing), reason=kind.missing)]
        marks += [] if name in DEFAULT_SERVERS else [pytest.mark.long]
        for case in kind.list_cases():
            yield pytest.param(name, case, marks=marks)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[DavServer]:
    with KINDS[request.param].open() as running:
        yield running


@pytest.mark.parametrize(("server", "case"), [*list_params()], indirect=["server"])
def test_contract(server: DavServer, case: str) -> None:
    name = server.make_folder()

    async def start() -> Driver:
        return await start_driver("WebDav", server.make_options(name))

    suite.run(start, case, suite.on_disk(server.files / name, server.child.restart))
