"""Options of a Local storage that are checked when it starts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import DriverContext
from mangrove.drivers.local.driver import Local
from mangrove.drivers.local.options import LocalOptions, check_video_position, parse_mode


@pytest.mark.parametrize(("text", "mode"), [("777", 0o777), ("0750", 0o750), ("0o700", 0o700)])
def test_a_mode_is_octal(text: str, mode: int) -> None:
    assert parse_mode(text) == mode


@pytest.mark.parametrize("text", ["20%", "0", "100%", "12.5", "3600"])
def test_a_position_is_seconds_or_a_share(text: str) -> None:
    check_video_position(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mkdir_perm": "9"}, 'mkdir_perm: "9" is not an octal number'),
        ({"video_thumb_pos": "x"}, "invalid video_thumb_pos value: x"),
        ({"video_thumb_pos": "101%"}, "invalid video_thumb_pos value: 101%"),
        ({"video_thumb_pos": "-1"}, "invalid video_thumb_pos value: -1"),
        ({"root_folder_path": "/no/such"}, "root folder /no/such not exists"),
        ({"root_folder_path": ""}, "root folder  not exists"),
    ],
)
def test_a_storage_with_an_option_that_cannot_work_does_not_start(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    values = replace(LocalOptions.parse("{}"), **{"root_folder_path": str(tmp_path), **options})
    with pytest.raises(StorageProblem) as refusal:
        asyncio.run(Local(values, DriverContext()).start())
    assert refusal.value.message == message
