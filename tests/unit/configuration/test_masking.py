"""Messages whose addresses are masked."""

from __future__ import annotations

import pytest

from mangrove import configuration
from mangrove.configuration import mask_private
from mangrove.configuration.setting import Flag, address
from mangrove.core.problems import BadRequest
from mangrove.records import settings
from mangrove.web.account_models import TokenReq


def test_what_the_setting_names_is_masked(records: None) -> None:
    settings.save({"privacy_regs": "(\\d+\\.)+\\d+\n\n[a-z]+@b"})
    configuration.reload()
    assert mask_private("at 10.0.0.1, ann@b and c") == "at ********, ***** and c"
    settings.save({"privacy_regs": ""})
    configuration.reload()
    assert mask_private("at 10.0.0.1") == "at 10.0.0.1"


def test_examples_in_messages_are_not_masked(records: None) -> None:
    configuration.reload()
    assert mask_private("at 10.0.0.1, 12:00:00") == "at ********, ********"
    check = address("", Flag.PRIVATE, "").check
    assert check is not None
    with pytest.raises(ValueError, match="like localhost:5222") as refused:
        check("nonsense")
    assert mask_private(str(refused.value)) == str(refused.value)
    with pytest.raises(BadRequest, match="such as 2030-01-31T12:00Z") as refused_time:
        TokenReq(expires="nonsense").make_token()
    assert mask_private(refused_time.value.message) == refused_time.value.message
    TokenReq(expires="2030-01-31T12:00Z").make_token()
