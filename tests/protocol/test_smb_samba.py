"""The driver suite on Samba."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from mangrove.drivers.base import Driver
from tests.contract.drivers import suite
from tests.contract.drivers.test_suite import start_driver
from tests.servers import smb

pytestmark = [
    pytest.mark.driver("SMB", "Samba"),
    pytest.mark.xdist_group("samba"),
    pytest.mark.skipif(not smb.CAN_RUN, reason=smb.REASON),
]
# A name with one of `"?` or with a dot or space at its end is none that SMB can hold; what the driver says then is
# tried elsewhere.
NOT_ON_SMB = {"names_of_all_kinds_survive", "folders_whose_names_begin_alike_are_kept_apart"}


@pytest.fixture(scope="module")
def samba(tmp_path_factory: pytest.TempPathFactory) -> Iterator[smb.Samba]:
    with smb.samba(tmp_path_factory.mktemp("samba")) as server:
        yield server


@pytest.mark.parametrize("case", suite.list_cases("SMB", NOT_ON_SMB))
def test_contract(samba: smb.Samba, case: str) -> None:
    root = uuid4().hex
    (samba.folder / root).mkdir()

    async def start() -> Driver:
        return await start_driver("SMB", samba.options(root))

    suite.run(start, case, suite.on_disk(samba.folder / root, samba.restart))
