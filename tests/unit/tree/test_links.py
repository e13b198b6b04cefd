"""Signatures of download links."""

from __future__ import annotations

import time

import pytest

from mangrove.problems import Unauthorized
from mangrove.site.values import Settings
from mangrove.tree import links

KEY, PATH = "dev_token", "/local/a b.txt"
FOR_EVER = "oZVEYK8_NpK5BAeDecwy2qXCLWX1nNHjO-J7CbGXtMA=:0"


@pytest.mark.parametrize(
    ("key", "path", "expires", "signature"),
    [
        (KEY, PATH, 0, FOR_EVER),
        (KEY, PATH, 1893456000, "2UqK-7kzYXuAQFZOQNOZRp10n-OtuLDmO4FWp9ow7m4=:1893456000"),
        ("dev_token-archive", "/local/x.zip", 0, "jsml5otl6yUWcEL9YNDxQsLd0O6csttiryUEnbjyZzk=:0"),
    ],
)
def test_signatures_are_those_of_existing_clients(key: str, path: str, expires: int, signature: str) -> None:
    assert links.sign(key, path, expires) == signature
    links.verify(key, path, signature)
    links.verify(key, path, f"{signature}/")


@pytest.mark.parametrize(
    ("signature", "reason"),
    [
        ("", "expire missing"), ("/", "expire missing"), (FOR_EVER[:-1], "expire missing"),
        (FOR_EVER[:-2], "expire invalid"), ("x:y", "expire invalid"), ("x:-1", "expire invalid"),
        ("x:٣", "expire invalid"), ("0", "expire invalid"), (f"x:{10**400}", "expire invalid"),
        ("x:1", "sign expired"), (links.sign(KEY, PATH, 1), "sign expired"),
        ("x:0", "sign invalid"), ("ä:0", "sign invalid"), (FOR_EVER + "0", "sign invalid"),
        (FOR_EVER.upper(), "sign invalid"), (links.sign(KEY, "/local/a%20b.txt"), "sign invalid"),
        (links.sign("other", PATH), "sign invalid"), (links.sign(KEY, PATH, 0)[:-1] + "9999999999", "sign invalid"),
    ],
)  # fmt: skip
def test_a_signature_that_is_not_good_is_refused_with_the_reason(signature: str, reason: str) -> None:
    with pytest.raises(Unauthorized) as refusal:
        links.verify(KEY, PATH, signature)
    assert refusal.value.message == reason


def test_without_a_key_nothing_is_signed_and_no_signature_is_good() -> None:
    from mangrove.paths import TreePath

    assert links.make_signature(Settings({"token": ""}), TreePath(PATH)) == ""
    with pytest.raises(Unauthorized, match="sign invalid"):
        links.verify("", PATH, links.sign("", PATH))


def test_links_end_after_the_hours_of_the_setting_rounded_up_to_a_common_moment() -> None:
    assert links.compute_expiry(Settings({})) == 0
    assert links.compute_expiry(Settings({"link_expiration": "-3"})) == 0
    ends = links.compute_expiry(Settings({"link_expiration": "2"}))
    assert ends % links.BUCKET == 0
    assert 0 < ends - time.time() - 7200 <= links.BUCKET


def test_addresses_are_encoded_as_paths() -> None:
    assert links.encode_path("/a b/ä#?%&+'.txt") == "/a%20b/%C3%A4%23%3F%25&+'.txt"
