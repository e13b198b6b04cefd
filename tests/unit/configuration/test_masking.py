"""Messages whose addresses are masked."""

from __future__ import annotations

from mangrove import configuration
from mangrove.configuration import mask_private
from mangrove.records import settings


def test_what_the_setting_names_is_masked(records: None) -> None:
    settings.save({"privacy_regs": "(\\d+\\.)+\\d+\n\n[a-z]+@b"})
    configuration.reload()
    assert mask_private("at 10.0.0.1, ann@b and c") == "at ********, ***** and c"
    settings.save({"privacy_regs": ""})
    configuration.reload()
    assert mask_private("at 10.0.0.1") == "at 10.0.0.1"
