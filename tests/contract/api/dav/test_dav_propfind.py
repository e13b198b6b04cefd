"""The view of the tree through WebDAV."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import People
from tests.contract.api.dav_client import EVERYTHING, Dav
from tests.support.service import Client, Service

LIVE = {
    "resourcetype", "displayname", "getcontentlength", "getlastmodified", "creationdate", "getcontenttype", "getetag",
    "supportedlock", "lockdiscovery",
}  # fmt: skip


def test_a_file_has_its_properties_and_a_folder_its_own(dav: Dav, folder: str) -> None:
    assert dav.status("PUT", f"{folder}/a ü&<.txt", b"four", x_oc_mtime="1577934245") == 201
    answer = dav.find(folder, depth="1")
    (own, own_properties), (href, properties) = answer.items()
    assert own == f"/dav{folder}/" and own_properties["resourcetype"] == "collection"
    assert "getcontentlength" not in own_properties and "getetag" not in own_properties
    assert href == f"/dav{folder}/a%20%C3%BC%26%3C.txt" and set(properties) == LIVE - {"getetag"}
    assert properties["displayname"] == "a ü&<.txt" and properties["getcontentlength"] == "4"
    assert properties["getlastmodified"] == "Thu, 02 Jan 2020 03:04:05 GMT"
    assert properties["getcontenttype"] == "text/plain; charset=utf-8"
    (alone,) = dav.find(f"{folder}/a ü&<.txt").values()
    assert alone.pop("getetag") == dav.http.get(href).headers["etag"] and alone == properties


def test_what_is_asked_for_by_name_is_answered_and_the_rest_is_missing(dav: Dav, folder: str) -> None:
    answer = dav.send(
        "PROPFIND", folder, '<propfind xmlns="DAV:"><prop><getetag/><x xmlns="u:r"/><resourcetype/></prop></propfind>',
        depth="0",
    )  # fmt: skip
    assert answer.text.count("<D:propstat>") == 2 and "404 Not Found" in answer.text and 'xmlns="u:r"' in answer.text
    names = dav.send("PROPFIND", folder, '<propfind xmlns="DAV:"><propname/></propfind>', depth="0").text
    assert "<D:resourcetype/>" in names and "404" not in names
    space = dav.find("/files", "quota-available-bytes", "quota-used-bytes")
    assert space["/dav/files/"] == {}, "how full a storage is is hidden by default"


def test_mounts_rules_and_base_paths_are_those_of_everything_else(
    service: Service, admin: Client, people: People, folder: str
) -> None:
    for name in ("seen", "hidden"):
        admin.put(f"{folder}/{name}", b"x")
    dav = Dav(service, people.new(EVERYTHING, base_path=folder))
    with fixtures.meta(admin, folder, hide="^hidden$"):
        assert set(dav.find("/", depth="1")) == {"/dav/", "/dav/seen"}
        assert dav.status("GET", "/seen") == 200
    assert "/dav/files/" in Dav(service, people.new(EVERYTHING)).find("/", depth="1")
    for escape in ("/../x", "/%2e%2e/x", "/a/../../x"):
        assert dav.http.request("PROPFIND", f"{service.address}/dav{escape}", headers={"depth": "0"}).status_code in (
            403, 404,
        )  # fmt: skip


def test_all_that_is_below_is_listed_where_the_setting_says_so(admin: Client, dav: Dav, folder: str) -> None:
    for path in ("a/b/c", "d/e", "f"):
        admin.put(f"{folder}/{path}", b"x")
    with fixtures.meta(admin, f"{folder}/d", password="secret"):
        for headers in ({"depth": "infinity"}, {}):
            refused = dav.send("PROPFIND", folder, **headers)
            assert refused.status_code == 403 and "propfind-finite-depth" in refused.text
        with fixtures.settings(admin, webdav_infinite_depth="true"):
            paths = set(dav.find(folder, depth="infinity"))
    assert paths == {f"/dav{folder}/{path}" for path in ("", "a/", "a/b/", "a/b/c", "d/", "f")}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"<propfind", 400), (b"<D:propfind/>", 400), (b"<x/>", 400), (b"\xff\xfe", 400),
        (b'<propfind xmlns="DAV:"/>', 400),
        (b"<propfind xmlns='DAV:'>" + b"<a>" * 100 + b"</a>" * 100 + b"</propfind>", 400),
        (b"<propfind xmlns='DAV:'><prop>" + b"<a/>" * 6000 + b"</prop></propfind>", 400),
        (b"x" * (300 << 10), 413),
        (b'<!DOCTYPE p [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><propfind xmlns="DAV:"><prop>&b;</prop></propfind>', 400),
        (b'<!DOCTYPE p SYSTEM "file:///etc/passwd"><propfind xmlns="DAV:"><allprop/></propfind>', 400),
        (b'<!DOCTYPE p [<!ENTITY a SYSTEM "file:///etc/passwd">]><propfind xmlns="DAV:">&a;</propfind>', 400),
    ],
)  # fmt: skip
def test_a_body_that_is_none_is_refused(dav: Dav, folder: str, body: bytes, status: int) -> None:
    answer = dav.send("PROPFIND", folder, body, depth="0")
    assert answer.status_code == status and "root:" not in answer.text


def test_names_that_are_no_utf_8_and_hidden_separators_are_refused(dav: Dav, service: Service, folder: str) -> None:
    for name in ("%ff%fe", "a%2fb", "a%5cb", "%zz", "a\\b", "%00"):
        answer = dav.http.request("PROPFIND", f"{service.address}/dav{folder}/{name}", headers={"depth": "0"})
        assert answer.status_code in (400, 403), name
    assert dav.status("PROPFIND", folder, depth="2") == 400
    assert dav.status("PROPFIND", f"{folder}/none", depth="0") == 404
    assert dav.status("PATCH", folder) == dav.status("POST", folder) == 405


def test_a_name_that_xml_cannot_carry_breaks_no_listing(
    service: Service, admin: Client, dav: Dav, tmp_path: Path
) -> None:
    (tmp_path / "bad\x01name").write_bytes(b"x")
    with fixtures.local(admin, tmp_path) as mount:
        (properties,) = [
            entry_properties
            for href, entry_properties in dav.find(mount, depth="1").items()
            if href.endswith("bad%01name")
        ]
    assert properties["displayname"] == "bad\N{REPLACEMENT CHARACTER}name"
