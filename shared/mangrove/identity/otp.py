"""The second factor: time-based one-time codes, each of which is valid once."""

from __future__ import annotations

import base64
import hashlib
import io
import time
from binascii import Error as Base32Error

import pyotp

from mangrove.core.problems import BadRequest
from mangrove.records.store import counters
from mangrove.records.users import User

ISSUER = "Mangrove"
PERIOD_SECONDS = 30
WINDOW = 1  # accepted time steps before and after the current one


def generate(username: str) -> tuple[str, str]:
    """Return a QR picture (a PNG data URL, at least 400 pixels wide) and its secret of 32 base32 letters. Store
    nothing."""
    import segno  # imported here: it takes memory in each service, and few users begin a second factor

    secret = pyotp.random_base32(32)
    uri = pyotp.TOTP(secret, interval=PERIOD_SECONDS).provisioning_uri(name=username, issuer_name=ISSUER)
    code = segno.make_qr(uri)
    picture = io.BytesIO()
    code.save(picture, kind="png", scale=-(-400 // code.symbol_size()[0]))
    return f"data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}", secret


def find_step(secret: str, code: str) -> int | None:
    """Return the time step of a code within the window, None for a wrong code."""
    if len(code) != 6 or not code.isascii() or not code.isdecimal():
        return None
    now = int(time.time()) // PERIOD_SECONDS
    try:
        totp = pyotp.TOTP(secret, interval=PERIOD_SECONDS)
        steps = range(now - WINDOW, now + WINDOW + 1)
        return next((step for step in steps if pyotp.utils.strings_equal(totp.generate_otp(step), code)), None)
    except (Base32Error, ValueError):
        return None


def use_code(user: User, code: str) -> bool:
    """Use a code. Return True if it is right and was not used before."""
    return _use(user.id, user.otp_secret, code)


def check_enrolment(code: str, secret: str) -> None:
    """Raise BadRequest unless the secret is usable and the code fits it."""
    if not 16 <= len(secret) <= 128 or find_step(secret, code) is None:
        raise BadRequest("Invalid 2FA code")


def use_enrolment(user_id: int, code: str, secret: str) -> None:
    """Use a code of a new secret. Raise BadRequest unless it fits and was not used before."""
    if not _use(user_id, secret, code):
        raise BadRequest("Invalid 2FA code")


def _use(user_id: int, secret: str, code: str) -> bool:
    step = find_step(secret, code)
    if step is None:
        return False
    factor = hashlib.sha256(secret.upper().encode()).hexdigest()[:16]  # one step may need codes of two factors
    return counters.claim_once(f"otp#{user_id}#{factor}#{step}", PERIOD_SECONDS * (2 * WINDOW + 2))
