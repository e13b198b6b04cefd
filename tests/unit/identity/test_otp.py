"""One-time codes."""

from __future__ import annotations

import base64
import struct
import time

import pyotp
import pytest

from mangrove.core.problems import BadRequest
from mangrove.identity import otp
from tests.unit.tree import builders

RFC_SECRET = base64.b32encode(b"12345678901234567890").decode()  # RFC 6238, appendix B


@pytest.mark.parametrize(("moment", "code"), [(59, "287082"), (1111111109, "081804"), (20000000000, "353130")])
def test_codes_are_those_of_the_standard(monkeypatch: pytest.MonkeyPatch, moment: int, code: str) -> None:
    monkeypatch.setattr(time, "time", lambda: float(moment))
    assert otp.find_step(RFC_SECRET, code) == moment // 30


@pytest.mark.parametrize(("steps", "good"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_a_code_is_good_one_step_before_and_after_its_own(
    monkeypatch: pytest.MonkeyPatch, steps: int, good: bool
) -> None:
    now = 1_700_000_010.0
    monkeypatch.setattr(time, "time", lambda: now)
    code = pyotp.TOTP(RFC_SECRET).at(int(now) + 30 * steps)
    assert (otp.find_step(RFC_SECRET, code) is not None) == good


@pytest.mark.parametrize("code", ["", "12345", "1234567", "12345a", "٢٨٧٠٨٢", "-28708", " 28708", "28 082"])
def test_what_is_no_code_fits_nothing(code: str) -> None:
    assert otp.find_step(RFC_SECRET, code) is None


@pytest.mark.parametrize("secret", ["", "short", "not base32 at all! 189", "A" * 200, "٣" * 20])
def test_a_secret_that_is_none_is_refused_at_enrolment(secret: str) -> None:
    with pytest.raises(BadRequest, match="Invalid 2FA code"):
        otp.check_enrolment("123456", secret)


@pytest.mark.usefixtures("records")
def test_enrolment_takes_the_code_of_its_secret_and_spends_it() -> None:
    _, secret = otp.generate("someone")
    code = pyotp.TOTP(secret).now()
    otp.check_enrolment(code, secret)
    otp.use_enrolment(1, code, secret)
    with pytest.raises(BadRequest, match="Invalid 2FA code"):
        otp.use_enrolment(1, code, secret)
    assert not otp.use_code(builders.user(id=1, otp_secret=secret), code)
    assert otp.use_code(builders.user(id=2, otp_secret=secret), code), "another user's codes are their own"


def test_a_generated_secret_comes_with_a_readable_picture() -> None:
    (picture, secret), (_, other) = otp.generate("someone"), otp.generate("someone")
    assert secret != other
    assert len(base64.b32decode(secret)) == 20
    kind, _, text = picture.partition(",")
    assert kind == "data:image/png;base64"
    data = base64.b64decode(text)
    assert data.startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", data[16:24])
    assert width == height >= 400


def test_a_code_is_good_once_and_for_its_user_only(records: None) -> None:
    from mangrove.records import users

    first = users.create(username="a", password_hash="x", otp_secret=RFC_SECRET)
    second = users.create(username="b", password_hash="x", otp_secret=RFC_SECRET)
    code = pyotp.TOTP(RFC_SECRET).now()
    assert not otp.use_code(first, "000000" if code != "000000" else "000001")
    assert otp.use_code(first, code)
    assert not otp.use_code(first, code)
    assert otp.use_code(second, code)
