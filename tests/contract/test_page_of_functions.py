"""The function of the page answers what a person opens in a browser."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.contract.scenarios import Person
from tests.contract.test_events import Values
from tests.support import lambdas


def test_what_a_person_opens_is_the_page(cloud: lambdas.Cloud) -> None:
    for path in ("/", "/@manage/users", "/files/a%2520b", "/docs"):
        answer = open_page(cloud, "site/page", path)
        assert (answer["statusCode"], answer["isBase64Encoded"]) == (200, False)
        assert 'src="/@assets/app-1.js"' in answer["body"]
        assert "default-src 'self'" in answer["headers"]["content-security-policy"]
        assert answer["headers"]["cache-control"] == "no-cache"
    assert open_page(cloud, "site/page_head", "/")["body"] == ""


def test_page_of_a_share_link_has_a_title_unless_it_is_locked(cloud: lambdas.Cloud) -> None:
    admin = Person(cloud).sign_in("admin", lambdas.ADMIN_PASSWORD)
    admin.gets("files/mkdir", path="/files/holiday")
    for password, has_title in (("", True), ("secret", False)):
        id = admin.gets("shares/create", files=["/files/holiday"], pwd=password)["id"]
        event = Values().fill("shares/page_get")
        event["rawPath"] = event["requestContext"]["http"]["path"] = f"/@s/{id}"
        answer = cloud.get_function_in("functions/api/shares")(event)
        assert 'src="/@assets/app-1.js"' in answer["body"]
        assert ('<meta property="og:title" content="holiday" />' in answer["body"]) is has_title
        assert ("holiday" in answer["body"]) is has_title


def test_a_file_of_the_page_comes_as_it_was_compressed(cloud: lambdas.Cloud) -> None:
    answer = open_page(cloud, "site/asset", "/@assets/app-1.js")
    assert (answer["statusCode"], answer["isBase64Encoded"]) == (200, True)
    assert base64.b64decode(answer["body"]) == lambdas.PACKED
    headers = answer["headers"]
    assert headers["content-type"].startswith("text/javascript")
    assert (headers["content-encoding"], headers["content-length"]) == ("br", str(len(lambdas.PACKED)))
    assert headers["cache-control"] == "public, max-age=31536000, immutable"
    assert headers["etag"]
    head = open_page(cloud, "site/asset_head", "/@assets/app-1.js")
    assert (head["statusCode"], head["body"], head["headers"]["etag"]) == (200, "", headers["etag"])


@pytest.mark.parametrize("path", ["/@assets/none.js", "/@assets/..%2findex.html", "/openlist/", "/d"])
def test_what_is_no_part_of_the_page_is_not_found(cloud: lambdas.Cloud, path: str) -> None:
    answer = open_page(cloud, "site/asset", path)
    assert (answer["statusCode"], json.loads(answer["body"])["code"]) == (404, 404)


def open_page(cloud: lambdas.Cloud, sample: str, path: str) -> dict[str, Any]:
    event = Values().fill(sample)
    event["rawPath"] = event["requestContext"]["http"]["path"] = path
    answer: dict[str, Any] = cloud.get_function_in("functions/api/site")(event)
    return answer
