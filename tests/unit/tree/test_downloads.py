"""Access to downloads, and their source."""

from __future__ import annotations

import pytest

from mangrove import configuration
from mangrove.core.problems import AccessDenied, EntryNotFound, NotAFile, StorageProblem, Unauthorized
from mangrove.tree.operations import links
from mangrove.tree.operations.downloads import Download, authorize_download
from mangrove.tree.operations.links import Purpose
from tests.unit.tree.environment import TreeEnv

ADDRESS = "https://example.org/file"


def authorize(tree: TreeEnv, path: str, signature: str = "") -> Download:
    return tree.run(authorize_download(path, signature))


def sign(tree: TreeEnv, path: str, purpose: Purpose = Purpose.FILE, owner: int | None = None) -> str:
    """The signature of a link that the user gets now."""
    owner_id = tree.user.id if owner is None else owner
    return links.make_signer(configuration.cached().settings, owner_id, purpose).sign(path)


def test_without_a_demand_for_signatures_any_path_is_found(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "d/file.txt")
    tree.set(sign_all="false")
    file = authorize(tree, "/disk//d/./file.txt", "nonsense")
    assert (file.path, file.storage_path.path, file.extension) == ("/disk/d/file.txt", "/d/file.txt", "txt")
    assert tree.run(file.stat()).size == len("d/file.txt")


@pytest.mark.parametrize("demand", ["setting", "storage", "rule"])
def test_where_a_signature_is_demanded_it_must_be_that_of_the_path(tree: TreeEnv, demand: str) -> None:
    tree.set(sign_all=str(demand == "setting").lower())
    tree.mount_disk("/disk", "d/file", "d/other", enable_sign=demand == "storage")
    if demand == "rule":
        tree.add_rule("/disk/d", password="secret", p_sub=True)
    signature = sign(tree, "/disk/d/file")
    assert authorize(tree, "/disk/d/file", signature).storage_path.path == "/d/file"
    for path, sent_signature in (("/disk/d/other", signature), ("/disk/d/file", ""), ("/disk/d/none", signature)):
        with pytest.raises(Unauthorized):
            authorize(tree, path, sent_signature)


def test_links_into_archives_have_a_key_of_their_own(tree: TreeEnv) -> None:
    tree.set(sign_all="true")
    tree.mount_disk("/disk", "x.zip")
    path = "/disk/x.zip"
    inside = sign(tree, path, Purpose.ARCHIVE)
    tree.run(authorize_download(path, inside, Purpose.ARCHIVE))
    with pytest.raises(Unauthorized):
        tree.run(authorize_download(path, sign(tree, path), Purpose.ARCHIVE))
    with pytest.raises(Unauthorized):
        authorize(tree, path, inside)


def test_link_of_user_without_access_is_refused_by_setting(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "file")
    signature = sign(tree, "/disk/file")
    authorize(tree, "/disk/file", signature)
    tree.change_user(disabled=True)
    with pytest.raises(Unauthorized, match="sign revoked"):
        authorize(tree, "/disk/file", signature)
    tree.set(link_follows_user="false")
    authorize(tree, "/disk/file", signature)


def test_where_no_storage_is_a_signature_is_asked_for_first(tree: TreeEnv) -> None:
    tree.set(sign_all="true")
    with pytest.raises(Unauthorized):
        authorize(tree, "/none")
    with pytest.raises(StorageProblem, match="storage not found"):
        authorize(tree, "/none", sign(tree, "/none"))


def test_only_a_file_can_be_fetched(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "d/file")
    tree.set(sign_all="false")
    with pytest.raises(NotAFile):
        tree.run(authorize(tree, "/disk/d").stat())
    with pytest.raises(EntryNotFound):
        tree.run(authorize(tree, "/disk/none").stat())


@pytest.mark.parametrize(
    ("fields", "name", "must_proxy", "may_proxy"),
    [
        ({}, "file.bin", False, False), ({"web_proxy": True}, "file.bin", True, True),
        ({}, "file.url", True, True), ({}, "file.txt", False, True),
        ({"webdav_policy": "use_proxy_url"}, "file.bin", False, True),
    ],
)  # fmt: skip
def test_bytes_pass_through_us_where_they_must_or_may(
    tree: TreeEnv, fields: dict[str, object], name: str, must_proxy: bool, may_proxy: bool
) -> None:
    tree.set(sign_all="false", proxy_types="url", text_types="txt")
    tree.mount("/links", "UrlTree", options={"url_structure": f"{name}:{ADDRESS}"}, **fields)
    file = authorize(tree, f"/links/{name}")
    assert file.must_proxy is must_proxy
    if may_proxy:
        tree.run(file.require_proxy())
    else:
        with pytest.raises(AccessDenied):
            tree.run(file.require_proxy())
    link = tree.run(file.get_link())
    assert link is not None
    assert link.url == ADDRESS


def test_a_storage_without_links_is_always_passed_through(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "file", down_proxy_url="https://proxy.example\nsecond")
    tree.set(sign_all="false")
    file = authorize(tree, "/disk/file")
    assert file.must_proxy
    assert tree.run(file.get_link()) is None
    assert file.get_down_proxy_url() == f"https://proxy.example/disk/file?sign={sign(tree, '/disk/file', owner=0)}"
    tree.set(sign_all="true")
    signature = sign(tree, "/disk/file")
    url = authorize(tree, "/disk/file", signature).get_down_proxy_url()
    assert url == f"https://proxy.example/disk/file?sign={signature}", "a link does not beget one that lasts longer"
    tree.set(sign_all="false")
    tree.mount_disk("/other", "file")
    assert authorize(tree, "/other/file").get_down_proxy_url() is None
