"""The capabilities of each service are those of opendal, and its options are the arguments of opendal.

Nothing is sent.
"""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from mangrove.core.paths import TreePath
from mangrove.core.problems import NotSupported, StorageProblem
from mangrove.drivers import base, registry
from mangrove.drivers.clouds.kinds import MAX_LINK_SECONDS, Drive, ObjectStore
from mangrove.drivers.clouds.transfer import MAX_PIECE_BYTES, find_max_upload
from tests.unit.drivers.clouds.services import SERVICES, make

P = TreePath
ONE_PIECE = {"OneDrive", "GoogleDrive", "Dropbox", "YandexDisk", "Seafile"}
LINKS = {"GCS", "OSS", "COS", "OBS", "TOS", "Swift"}
KEY = json.dumps({"type": "service_account", "client_email": "a@b", "private_key": "none"})
CREDENTIALS = {"account_key": "c2VjcmV0", "sas_token": "sig=s3", "credential": KEY}


def test_every_service_is_here() -> None:
    clouds = {name for name, module in registry.DRIVERS.items() if module.path.startswith("clouds.")}
    assert clouds == SERVICES.keys()


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_claims_what_opendal_can_do_for_it(name: str) -> None:
    driver = make(name)
    can = driver.build_operator().capability()
    assert can.read and can.stat and can.list
    claims = {
        "write": can.write, "makedirs": can.create_dir, "remove": can.delete_with_recursive, "remove_empty": can.delete,
        "copy": can.copy, "rename": can.rename or can.copy, "move": can.rename or can.copy, "link": name in LINKS,
        "remove_unchanged": name == "AzureBlob", "identify": True,
    }  # fmt: skip
    assert {field: is_claimed for field, is_claimed in asdict(driver.capabilities).items() if is_claimed} == {
        field: True for field, is_claimed in claims.items() if is_claimed
    }
    assert isinstance(driver, Drive) == can.rename
    assert not (name in LINKS and not can.presign_read)
    assert driver.config.only_proxy == (name not in LINKS)
    assert can.read_with_if_match or not driver.reads_if_match
    assert driver.has_etags or not driver.reads_if_match
    assert find_max_upload(can) == (MAX_PIECE_BYTES if name in ONE_PIECE else None)


@pytest.mark.parametrize("name", SERVICES)
def test_every_option_reaches_opendal(name: str) -> None:
    ours = {"root_folder_path", "sign_url_expire", "trash_days", "trash_max_size"}
    driver = make(name)
    choices = {item.name: item.options.split(",")[-1] for item in driver.Options.list_form_items() if item.options}
    every = {item.name for item in driver.Options.list_form_items()} - ours
    either = {option for names in driver.credentials for option in names}
    for chosen in driver.credentials or [()]:
        names = every - (either - {*chosen})
        options_given = {
            option: choices.get(option) or CREDENTIALS.get(option) or f"https://{option}.example.org"
            for option in names
        }
        driver = make(name, **{**dict.fromkeys(either), **options_given})
        arguments = driver.build_arguments()
        if "credential" in names:
            arguments["credential"] = base64.b64decode(arguments["credential"]).decode()
        assert {option: arguments[option] for option in names} == options_given
        assert arguments.keys() == names | {"root"} | dict(driver.settings).keys()
        driver.build_operator()


@pytest.mark.parametrize("name", ["Dropbox", "OneDrive", "GoogleDrive", "AliyunDrive"])
def test_what_lasts_longer_is_used_when_both_are_given(name: str) -> None:
    arguments = make(name, access_token="short").build_arguments()
    assert "access_token" not in arguments
    assert arguments["refresh_token"] == "r1"


@pytest.mark.parametrize("name", SERVICES)
def test_the_root_is_a_folder_of_the_service(name: str) -> None:
    assert make(name, root_folder_path="/a/b/").build_arguments()["root"] == "/a/b"
    assert make(name, root_folder_path="").build_arguments()["root"] == "/"


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_missing_is_named_at_the_start(name: str) -> None:
    required = [item.name for item in make(name).Options.list_form_items() if item.required]
    for option in set(required) - {"root_folder_path"}:
        with pytest.raises(StorageProblem, match=f"^{option} is required$"):
            asyncio.run(make(name, **{option: None}).start())
        with pytest.raises(StorageProblem, match=f"^{option} is required$"):
            asyncio.run(make(name, **{option: ""}).start())
    for names in make(name).credentials:
        without = dict.fromkeys([option for credential in make(name).credentials for option in credential])
        if len(names) > 1:
            with pytest.raises(StorageProblem, match="is required"):
                asyncio.run(make(name, **{**without, names[0]: "x"}).start())
        with pytest.raises(StorageProblem, match=" and ".join(names)):
            asyncio.run(make(name, **without).start())
        asyncio.run(make(name, **{**without, **{option: CREDENTIALS.get(option, "e30=") for option in names}}).start())


@pytest.mark.parametrize("name", SERVICES)
def test_secrets_are_known_as_such(name: str) -> None:
    options = make(name).Options
    words = ("secret", "token", "password", "key", "credential")
    secret = {item.name for item in options.list_form_items() if any(word in item.name for word in words)}
    public = {"access_key_id", "application_key_id", "secret_id", "temp_url_hash_algorithm"}
    assert options.list_secrets() == secret - public


@pytest.mark.parametrize("name", SERVICES)
def test_options_that_are_not_usable_are_a_clear_text_without_secrets(name: str) -> None:
    driver = make(name, **{key: "\x00 not usable" for key in ("endpoint",) if "endpoint" in SERVICES[name]})
    try:
        asyncio.run(driver.start())
    except StorageProblem as problem:
        assert "s1" not in str(problem)
    if name == "AzureBlob":
        with pytest.raises(StorageProblem, match="not usable: invalid account_key"):
            asyncio.run(make(name, account_key="!!not base64").start())


async def link(name: str, path: str = "/a b/c%20#?é.txt", **more: Any) -> base.Link:
    driver = make(name, **more)
    await driver.start()
    result: base.Link = await driver.link(P(path))
    return result


@pytest.mark.parametrize("name", sorted(LINKS - {"GCS"}))
def test_links_end_when_the_option_says_so(name: str) -> None:
    for hours, seconds in ((0, 4 * 3600), (2, 2 * 3600), (10_000, MAX_LINK_SECONDS)):
        signed = asyncio.run(link(name, sign_url_expire=hours))
        assert signed.lifetime == seconds
        assert urlsplit(signed.url).path.endswith("/a%20b/c%2520%23%3F%C3%A9.txt")
        assert not signed.headers


@pytest.mark.parametrize("name", ["OSS", "TOS"])
def test_a_link_names_the_download_where_opendal_signs_that(name: str) -> None:
    query = parse_qs(urlsplit(asyncio.run(link(name)).url).query)
    assert query["response-content-disposition"][0].startswith("attachment; filename")


def test_links_of_oss_lead_where_the_option_says() -> None:
    assert "https://b.links.example.org/" in asyncio.run(link("OSS", presign_endpoint="https://links.example.org")).url


def test_links_of_gcs_are_signed_with_the_key_of_the_account() -> None:
    made = rsa.generate_private_key(65537, 2048)
    pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    credential = json.dumps(json.loads(KEY) | {"private_key": pem})
    signed = asyncio.run(link("GCS", "/d/plain-1.txt", credential=credential, token=None, sign_url_expire=1))
    url = urlsplit(signed.url)
    assert (url.path, parse_qs(url.query)["X-Goog-Expires"]) == ("/b/d/plain-1.txt", ["3600"])
    with pytest.raises(NotSupported):  # opendal would sign the name without escapes
        asyncio.run(link("GCS", "/a%20b", credential=credential, token=None))


def test_there_is_no_link_where_nothing_can_sign_it() -> None:
    for name, path, more in (
        ("GCS", "/a b", {}), ("GCS", "/a%20b", {}), ("GCS", "/plain", {}), ("Swift", "/f", {"temp_url_key": None}),
    ):  # fmt: skip
        with pytest.raises(NotSupported):
            asyncio.run(link(name, path, **more))


@pytest.mark.parametrize("name", SERVICES)
def test_a_file_is_the_same_through_two_storages_of_one_place(name: str) -> None:
    async def identify(path: str, **more: Any) -> set[str]:
        identities: set[str] = await make(name, **more).identify(P(path))
        return identities

    async def used() -> None:
        assert await identify("/a/f") == await identify("/f", root_folder_path="/a")
        assert await identify("/a/f") != await identify("/f")
        kind = registry.load(name)
        if issubclass(kind, ObjectStore):
            place = kind.location_options[-1]
            assert await identify("/f") != await identify("/f", **{place: "other"})

    asyncio.run(used())
