"""The log of requests: the logger's own form, all lines, in order, and none that waits for ever."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mangrove.core import access_log, telemetry
from mangrove.core.access_log import AccessLog
from tests.support.waiting import wait_until

FACTS = {"method": "GET", "path": "/é\n\x1b[2J", "status": 200, "ms": 0.1}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def opened(file: Path) -> AccessLog:
    found = AccessLog()
    found.open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    return found


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_line_has_the_form_of_the_logger_s(opened: AccessLog, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened.note(FACTS, is_detail=False)
    wait_until(lambda: bool(read(file)))
    AccessLog().note(FACTS, is_detail=False)
    (line,) = read(file)
    (record,) = caplog.records
    formatted = json.loads(telemetry.log.registered_formatter.format(record))
    assert line == formatted | {"timestamp": line["timestamp"]}
    assert list(line) == list(formatted)
    assert len(line["timestamp"]) == len(formatted["timestamp"])


def test_lines_stay_in_order_and_closing_writes_them_all(opened: AccessLog, file: Path) -> None:
    for number in range(5000):
        opened.note({"number": number}, is_detail=False)
    opened.close()
    assert [line["facts"]["number"] for line in read(file)] == list(range(5000))


def test_polling_is_a_detail(opened: AccessLog, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened.note({"number": 1}, is_detail=True)
    opened.note({"number": 2}, is_detail=False)
    level = telemetry.log.log_level
    telemetry.set_level("DEBUG")
    try:
        opened.note({"number": 3}, is_detail=True)
        telemetry.set_level("WARNING")
        opened.note({"number": 4}, is_detail=False)
    finally:
        telemetry.log.setLevel(level)
    opened.close()
    assert [(line["facts"]["number"], line["level"]) for line in read(file)] == [(2, "INFO"), (3, "DEBUG")]


def test_where_nobody_takes_lines_the_oldest_give_way_and_that_is_said(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_log, "MOST", 10)
    monkeypatch.setattr(access_log, "SECONDS", 60)
    opened = AccessLog()
    opened.open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    for number in range(25):
        opened.note({"number": number}, is_detail=False)
    opened.close()
    *lines, last = read(file)
    assert [line["facts"]["number"] for line in lines] == list(range(15, 25))
    assert (last["level"], last["facts"]) == ("WARNING", {"lost lines": 15})


def test_a_reader_that_has_gone_breaks_nothing() -> None:
    reader, writer = os.pipe()
    opened = AccessLog()
    opened.open(writer)
    os.close(reader)
    opened.note(FACTS, is_detail=False)
    opened.close()
    os.close(writer)


def test_a_pipe_gets_whole_lines_whoever_else_writes_to_it() -> None:
    reader, writer = os.pipe()
    logs = [AccessLog(), AccessLog()]
    count, received = 2000, bytearray()
    for number, log in enumerate(logs):
        log.open(writer)
        for line in range(count):
            log.note({"log": number, "number": line, "text": "x" * (line % 700)}, is_detail=False)
    while received.count(b"\n") < 2 * count:
        received += os.read(reader, 1 << 20)
    for log in logs:
        log.close()
    lines = [json.loads(line)["facts"] for line in received.splitlines()]
    for number in range(len(logs)):
        assert [line["number"] for line in lines if line["log"] == number] == list(range(count))
    os.close(reader)
    os.close(writer)
