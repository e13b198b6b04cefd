from __future__ import annotations

import pytest

from mangrove.drivers.crypt.ciphers import PREFIX, obscure, reveal


@pytest.mark.parametrize("plain", ["", "pass", "pass wörd", "x" * 1000])
def test_a_password_comes_back(plain: str) -> None:
    obscured = obscure(plain)
    assert obscured.startswith(PREFIX)
    assert plain == "" or plain not in obscured
    assert (reveal(obscured), obscure(obscured)) == (plain, obscured)
    assert obscure(plain) != obscured


def test_what_rclone_obscured_is_revealed() -> None:
    assert reveal(f"{PREFIX}YmJiYmJiYmJiYmJiYmJiYp3gcEWbAw") == "potato"


@pytest.mark.parametrize("text", ["", "short", "not base64!", "A" * 60])
def test_what_was_not_obscured_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        reveal(PREFIX + text)
