"""Log lines for people: readable, and nothing in them commands the terminal."""

from __future__ import annotations

import logging
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import httpx
import pytest

from mangrove.telemetry import Readable


def line(message: str, **facts: object) -> str:
    record = logging.LogRecord("mangrove", logging.INFO, "", 0, message, (), None)
    record.facts = facts
    return Readable().format(record)


def test_a_line_names_its_facts() -> None:
    assert line("request", method="GET", path="/ping").endswith(" INFO request method=GET path=/ping")


def test_control_characters_are_shown_and_not_obeyed() -> None:
    shown = line("request", path="/\x1b[2J\nforged")
    assert shown.isprintable()
    assert shown.endswith(r"path=/\x1b[2J\nforged")


def test_addresses_that_are_fetched_are_not_logged_with_their_signatures(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # as Lambda sets it for logs in JSON
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.handle_request).start()
        httpx.get(f"http://127.0.0.1:{server.server_port}/?X-Amz-Signature=secret")
    assert "secret" not in caplog.text
