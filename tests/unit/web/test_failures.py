"""Failure pages."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from mangrove.core.problems import AccessDenied, EntryNotFound, Problem, ResourceNotFound, TooMany, WrongArchivePassword
from mangrove.web.failures import make_failure_page, make_referral


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (EntryNotFound(), 404),
        (ResourceNotFound(), 404),
        (AccessDenied(), 403),
        (WrongArchivePassword(), 403),
        (Problem(), 500),
    ],
)
def test_a_page_has_the_status_of_its_problem(problem: Problem, status: int) -> None:
    page = make_failure_page(problem)
    assert page.status_code == status
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert f"<title>{status} " in bytes(page.body).decode()
    assert make_failure_page(problem, is_head=True).body == b""
    assert page.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert (page.headers["x-frame-options"], page.headers["x-content-type-options"]) == ("DENY", "nosniff")


def test_page_has_retry_time_if_known() -> None:
    page = make_failure_page(TooMany(retry_after=10), headers={"x-own": "1"})
    assert (page.status_code, page.headers["retry-after"], page.headers["x-own"]) == (429, "10", "1")
    assert "retry-after" not in make_failure_page(AccessDenied()).headers


def test_a_message_cannot_become_a_script() -> None:
    text = bytes(make_failure_page(Problem("<script>'&")).body).decode()
    assert "<p>&lt;script&gt;&#x27;&amp;</p>" in text


@pytest.mark.parametrize(("accepts", "is_page"), [("text/html,*/*;q=0.8", True), ("*/*", False), ("", False)])
def test_referral_leads_browsers_and_programs_to_a_page(accepts: str, is_page: bool) -> None:
    request = Request({"type": "http", "headers": [(b"accept", accepts.encode())]})
    url = "https://host/@s/a&b"
    answer = make_referral(request, AccessDenied(f'<no>: open {url} and choose "it"'), url)
    text = bytes(answer.body).decode()
    assert (answer.status_code, answer.headers["link"]) == (403, f'<{url}>; rel="alternate"; type="text/html"')
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    if is_page:
        link = '<a href="https://host/@s/a&amp;b">https://host/@s/a&amp;b</a>'
        assert text.startswith("<!doctype html>") and f"<p>&lt;no&gt;: open {link} and choose" in text
    else:
        assert text == f'<no>: open {url} and choose "it"\n'
