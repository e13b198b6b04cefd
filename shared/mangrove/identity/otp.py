"""The second factor: time-based one-time codes, each good once."""

from __future__ import annotations

import base64
import hashlib
import io
import time
from binascii import Error as Base32Error

import pyotp
import segno

from mangrove.core.problems import BadRequest
from mangrove.records.store import counters
from mangrove.records.users import User

ISSUER = "Mangrove"
PERIOD = 30  # seconds
WINDOW = 1  # steps before and after now


def generate(username: str) -> tuple[str, str]:
    """A QR picture (PNG data URL, at least 400 px wide) and the secret in it, 32 base32 letters. Nothing is stored."""
    secret = pyotp.random_base32(32)
    uri = pyotp.TOTP(secret, interval=PERIOD).provisioning_uri(name=username, issuer_name=ISSUER)
    code = segno.make_qr(uri)
    picture = io.BytesIO()
    code.save(picture, kind="png", scale=-(-400 // code.symbol_size()[0]))
    return f"data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}", secret


def find_step(secret: str, code: str) -> int | None:
    """The time step whose code this is, within the window; None for a wrong code."""
    if len(code) != 6 or not code.isascii() or not code.isdecimal():
        return None
    now = int(time.time()) // PERIOD
    try:
        totp = pyotp.TOTP(secret, interval=PERIOD)
        steps = range(now - WINDOW, now + WINDOW + 1)
        return next((step for step in steps if pyotp.utils.strings_equal(totp.generate_otp(step), code)), None)
    except (Base32Error, ValueError):
        return None


def use_code(user: User, code: str) -> bool:
    """Whether the code is right and was not used before; from now on it was."""
    return _spend(user.id, user.otp_secret, code)


def check_enrolment(code: str, secret: str) -> None:
    """BadRequest unless the secret is a usable one and the code fits it."""
    if not 16 <= len(secret) <= 128 or find_step(secret, code) is None:
        raise BadRequest("Invalid 2FA code")


def use_enrolment(user_id: int, code: str, secret: str) -> None:
    """BadRequest unless the code fits the secret and was not used before; from now on it was."""
    if not _spend(user_id, secret, code):
        raise BadRequest("Invalid 2FA code")


def _spend(user_id: int, secret: str, code: str) -> bool:
    step = find_step(secret, code)
    if step is None:
        return False
    factor = hashlib.sha256(secret.upper().encode()).hexdigest()[:16]  # codes of two may be asked for in one step
    return counters.claim_once(f"otp#{user_id}#{factor}#{step}", PERIOD * (2 * WINDOW + 2))
