"""The share and the user of an SMB storage, from its options."""

from __future__ import annotations

import pytest

from mangrove.core.problems import StorageProblem
from mangrove.drivers.smb.options import SMBOptions, parse_share_address

GOOD = {"root_folder_path": ".", "address": "nas", "username": "me", "password": "", "share_name": "data"}


@pytest.mark.parametrize("share", ["", "/", "a/b", "a\\b", "a:b", "n" * 81])
def test_what_is_no_share_is_refused(share: str) -> None:
    with pytest.raises(StorageProblem, match="share_name"):
        parse_share_address(SMBOptions(**GOOD | {"share_name": share}))


def test_nobody_signs_in_without_a_name() -> None:
    with pytest.raises(StorageProblem, match="username"):
        parse_share_address(SMBOptions(**GOOD | {"username": " "}))


def test_a_share_is_asked_for_by_a_name_without_colons() -> None:
    assert parse_share_address(SMBOptions(**GOOD)).unc == r"\\nas\data"
    six = parse_share_address(SMBOptions(**GOOD | {"address": "[fe80::1%eth0]:1445", "share_name": "/data/"}))
    assert six.unc == r"\\fe80--1.ipv6-literal.net\data"
