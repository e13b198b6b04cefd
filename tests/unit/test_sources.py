"""Who stands behind an address."""

from __future__ import annotations

import pytest

from mangrove.core.sources import MAX_LENGTH, find_source


@pytest.mark.parametrize(
    ("address", "source"),
    [("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8:0:1::5", "2001:db8:0:1::/64"),
     ("2001:db8:0:1:ffff::", "2001:db8:0:1::/64"), ("fe80::1%eth0", "fe80::/64"), ("", ""), ("unix", "unix"),
     ("192.0.2.1:5678", "192.0.2.1"), ("[2001:db8:0:1::9]:443", "2001:db8:0:1::/64"),
     ("[2001:db8:0:1::9]", "2001:db8:0:1::/64"), ("::1", "::/64"), ("x" * 1000, "x" * MAX_LENGTH)],
)  # fmt: skip
def test_an_address_has_one_source_and_a_network_of_ipv6_is_one(address: str, source: str) -> None:
    assert find_source(address) == source
