"""The address of a storage's server."""

from __future__ import annotations

import pytest

from mangrove.core.problems import StorageProblem
from mangrove.drivers.connections import parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nas", ("nas", 22)), (" nas.example.org:2222 ", ("nas.example.org", 2222)), ("192.0.2.7:1", ("192.0.2.7", 1)),
        ("192.0.2.7", ("192.0.2.7", 22)), ("2001:db8::7", ("2001:db8::7", 22)), ("[2001:db8::7]", ("2001:db8::7", 22)),
        ("[2001:db8::7]:2222", ("2001:db8::7", 2222)), ("fe80::1%eth0", ("fe80::1%eth0", 22)), ("[::1]", ("::1", 22)),
    ],
)  # fmt: skip
def test_an_address_is_a_host_and_maybe_a_port(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text, 22) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", ":22", "nas:", "nas:0", "nas:65536", "nas:ssh", "nas:²", "nas:٣", "sftp://nas", "nas/share", "\\\\nas",
        "a b", "[::1", "[::1]2", "me@nas", "h\r\nQUIT",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(StorageProblem, match=r"^address has to be a host name or an IP address, .* if it is not 22$"):
        parse_address(text, 22)
