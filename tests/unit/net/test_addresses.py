"""The addresses that a policy permits."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest

from mangrove.core.problems import Unreachable
from mangrove.net.addresses import LOCAL_POLICY, AddressPolicy, ForbiddenAddress, check_host, is_public, resolve_host
from tests.unit.net.conftest import Names

PRIVATE = """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 169.254.169.254
    169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.168.1.1 198.18.0.1 198.51.100.7 203.0.113.9
    224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16
    :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe
    64:ff9b:1::1 100::1 2001::1 2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe:: fc00::1 fd00:ec2::254 fd12:3456::1
    fe80::1 fec0::1 ff02::1 3fff::1 4000::1
"""
PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 172.15.255.255
    172.32.0.0 192.167.255.255 192.169.0.0 223.255.255.255 2606:4700:4700::1111 2a00:1450::1 ::ffff:8.8.8.8
    64:ff9b::808:808
"""


@pytest.mark.parametrize("address", PRIVATE.split())
def test_an_address_that_is_not_of_the_public_internet_is_none(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PUBLIC.split())
def test_an_address_of_the_public_internet_is_one(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_another_programs_host_must_be_permitted_at_all_its_addresses(names: Names) -> None:
    names.answers["mixed.example"] = [["8.8.8.8", "127.0.0.1"]]
    names.answers["public.example"] = [["8.8.8.8", "1.1.1.1"]]
    asyncio.run(check_host("public.example", 80, AddressPolicy()))
    with pytest.raises(ForbiddenAddress):
        asyncio.run(check_host("mixed.example", 21, AddressPolicy()))
    asyncio.run(check_host("mixed.example", 21, AddressPolicy.parse("127.0.0.1")))
    with pytest.raises(Unreachable, match="was not found"):
        asyncio.run(check_host("nowhere.invalid", 80, AddressPolicy()))


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fd00:ec2::254", "fe80::1", "100.100.100.200", "::ffff:169.254.169.254"]
)
def test_the_administrators_own_tools_are_no_metadata_service(address: str) -> None:
    assert not LOCAL_POLICY.permits("aria2", ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "192.168.1.2", "10.0.0.2", "fd12::1", "8.8.8.8"])
def test_the_administrators_own_tools_may_be_neighbours(address: str) -> None:
    assert LOCAL_POLICY.permits("aria2", ipaddress.ip_address(address))


def test_a_policy_is_read_from_names_addresses_and_networks() -> None:
    policy = AddressPolicy.parse(" Host.Example., 10.0.0.1/8\n[fd00::]\t ,192.0.2.7")
    assert policy.names == {"host.example"}
    assert [str(network) for network in policy.networks] == ["10.0.0.0/8", "fd00::/128", "192.0.2.7/32"]
    assert policy.permits("HOST.example.", ipaddress.ip_address("127.0.0.1"))
    assert policy.permits("x", ipaddress.ip_address("::ffff:10.9.9.9"))
    assert not policy.permits("x", ipaddress.ip_address("11::1"))
    assert AddressPolicy.parse("") == AddressPolicy()


def test_what_is_blocked_stays_so_although_its_name_is_allowed() -> None:
    policy = AddressPolicy(frozenset({"meta"}), blocked=(ipaddress.ip_network("169.254.0.0/16"),))
    assert not policy.permits("meta", ipaddress.ip_address("169.254.169.254"))
    assert policy.permits("meta", ipaddress.ip_address("10.0.0.1"))


def test_a_host_is_resolved_in_the_resolvers_order_and_in_any_spelling(names: Names) -> None:
    names.answers["several.example"] = [["10.0.0.2", "10.0.0.1"]]
    assert [str(address) for address in asyncio.run(resolve_host("several.example", 80))] == ["10.0.0.2", "10.0.0.1"]
    assert [str(address) for address in asyncio.run(resolve_host("0x7f.1", 80))] == ["127.0.0.1"]
    for host in ("nowhere.invalid", "a" * 300, "x\0y"):
        with pytest.raises(Unreachable, match=r"^the host .{1,100} was not found$"):
            asyncio.run(resolve_host(host, 80))


def test_allowed_name_does_not_reach_metadata_service() -> None:
    metadata = ipaddress.ip_address("169.254.169.254")
    assert not AddressPolicy.parse("intranet.example").permits("intranet.example", metadata)
    assert AddressPolicy.parse("intranet.example 169.254.169.254").permits("intranet.example", metadata)
