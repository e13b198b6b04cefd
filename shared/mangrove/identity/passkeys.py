"""Passkeys: WebAuthn credentials, with which a user signs in without a password and without a one-time code.

The authenticator verifies the user by a PIN or biometrics, so a passkey counts as both factors. Only discoverable
credentials are registered: a sign-in names no user, and its options reveal nothing about accounts.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from mangrove.core.problems import BadRequest, Problem, RecordNotFound, Unauthorized
from mangrove.core.telemetry import log_event, log_warning
from mangrove.identity import accounts, lockout
from mangrove.records import login_challenges, users
from mangrove.records import passkeys as records
from mangrove.records.passkeys import Passkey
from mangrove.records.store.base import RecordConflict
from mangrove.records.users import User

CHALLENGE_SECONDS = 120
MAX_PASSKEYS_PER_USER = 20
MAX_TITLE_LENGTH = 255
REGISTRATION, LOGIN = "passkey registration", "passkey sign-in"  # purposes of challenges
EXPIRED = "the sign-in with a passkey took too long, or was answered before: begin again"
REFUSED = "the passkey was not accepted"


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """The site for which an authenticator makes and uses passkeys."""

    id: str
    """The name of its host."""
    origin: str
    """Scheme, host and port, as a browser sends them."""
    title: str


def make_relying_party(address: str, title: str) -> RelyingParty:
    """Return the relying party of a site address. Raise BadRequest for a host without a name."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return RelyingParty(host, f"{parts.scheme}://{parts.netloc}", title)
    raise BadRequest("passkeys need a site address with a name: open the site by its name, or set MANGROVE_SITE_URL")


def begin_registration(user: User, party: RelyingParty, source: str) -> tuple[dict[str, Any], str]:
    """Return the options of `navigator.credentials.create` and the id of their challenge."""
    import webauthn
    from webauthn.helpers import structs

    own = records.passkeys.find_by_user(user.id)
    _check_count(own)
    options = webauthn.generate_registration_options(
        rp_id=party.id,
        rp_name=party.title or party.id,
        user_id=_make_user_handle(user.id),
        user_name=user.username,
        timeout=CHALLENGE_SECONDS * 1000,
        authenticator_selection=structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.REQUIRED,
            require_resident_key=True,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[structs.PublicKeyCredentialDescriptor(id=_decode(passkey.name)) for passkey in own],
    )
    data = {"challenge": _encode(options.challenge), "user": user.id}
    return _make_answer(options), login_challenges.issue(REGISTRATION, data, CHALLENGE_SECONDS, source)


def finish_registration(
    user: User, party: RelyingParty, session: str, credential: Mapping[str, Any], title: str
) -> Passkey:
    """Register the credential that an authenticator made for a challenge of the user. Raise BadRequest."""
    import webauthn

    if len(title) > MAX_TITLE_LENGTH:
        raise BadRequest("title is too long")
    challenge = login_challenges.use(REGISTRATION, session)
    if challenge is None or challenge["user"] != user.id:
        raise BadRequest("the registration of a passkey took too long, or was answered before: begin again")
    with _translate_errors(BadRequest(REFUSED)):
        verified = webauthn.verify_registration_response(
            credential=dict(credential),
            expected_challenge=_decode(challenge["challenge"]),
            expected_rp_id=party.id,
            expected_origin=party.origin,
            require_user_verification=True,
        )
    own = records.passkeys.find_by_user(user.id)
    _check_count(own)
    now = datetime.now(UTC)
    passkey = records.passkeys.create(
        user_id=user.id, title=title.strip() or f"passkey {len(own) + 1}", name=_encode(verified.credential_id),
        public_key=_encode(verified.credential_public_key), sign_count=verified.sign_count,
        aaguid=str(verified.aaguid), added=now, last_used=now,
    )  # fmt: skip
    log_event("a passkey was registered", user=user.username, passkey=passkey.id)
    return passkey


def begin_login(party: RelyingParty, source: str) -> tuple[dict[str, Any], str]:
    """Return the options of `navigator.credentials.get`, for any passkey of this site, and the id of their
    challenge."""
    import webauthn
    from webauthn.helpers import structs

    options = webauthn.generate_authentication_options(
        rp_id=party.id,
        timeout=CHALLENGE_SECONDS * 1000,
        user_verification=structs.UserVerificationRequirement.REQUIRED,
    )
    data = {"challenge": _encode(options.challenge)}
    return _make_answer(options), login_challenges.issue(LOGIN, data, CHALLENGE_SECONDS, source)


def finish_login(party: RelyingParty, session: str, credential: Mapping[str, Any], username: str, source: str) -> str:
    """Return a session token of the user of a passkey. Raise BadRequest, Unauthorized or TooMany.

    `username` is the name from the beginning of the sign-in, "" for none. With a name, a passkey of another user is
    refused.
    """
    challenge = login_challenges.use(LOGIN, session)
    if challenge is None:
        raise BadRequest(EXPIRED)
    passkey = records.find_by_credential(str(credential.get("id", "")))
    user = None if passkey is None else users.find_by_id(passkey.user_id)
    subject = f"passkey\n{user.username if user else ''}"  # no account can have this name
    lockout.ACCOUNTS.check(subject, source)
    try:
        if passkey is None or user is None or username not in ("", user.username):
            raise Unauthorized(REFUSED)
        _use(passkey, party, _decode(challenge["challenge"]), credential)
    except Unauthorized:
        lockout.ACCOUNTS.record_failure(subject, source)
        raise
    lockout.ACCOUNTS.record_success(subject, source)
    return accounts.open_session(user)


def _use(passkey: Passkey, party: RelyingParty, challenge: bytes, credential: Mapping[str, Any]) -> None:
    """Verify a signature and store its counter. Raise Unauthorized."""
    import webauthn

    handle = credential.get("response", {}).get("userHandle")
    if handle and _decode(handle) != _make_user_handle(passkey.user_id):
        raise Unauthorized(REFUSED)
    with _translate_errors(Unauthorized(REFUSED)):
        verified = webauthn.verify_authentication_response(
            credential=dict(credential),
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=party.origin,
            credential_public_key=_decode(passkey.public_key),
            credential_current_sign_count=passkey.sign_count,
            require_user_verification=True,
        )
    try:
        records.save_use(passkey, verified.new_sign_count)
    except (RecordConflict, RecordNotFound):
        raise Unauthorized(REFUSED) from None


def delete_own(user_id: int, credential_id: str) -> None:
    """Delete a passkey of the user by its credential id, in Base64 or Base64url. Raise ResourceNotFound for any
    other."""
    passkey = records.find_by_credential(credential_id.rstrip("=").translate(str.maketrans("+/", "-_")))
    records.passkeys.delete_own(user_id, 0 if passkey is None else passkey.id)


def _check_count(own: list[Passkey]) -> None:
    if len(own) >= MAX_PASSKEYS_PER_USER:
        raise BadRequest(f"a user may have at most {MAX_PASSKEYS_PER_USER} passkeys")


def _make_user_handle(user_id: int) -> bytes:
    return f"mangrove user {user_id}".encode()


def _make_answer(options: Any) -> dict[str, Any]:
    from webauthn.helpers import options_to_json_dict

    return {"publicKey": options_to_json_dict(options)}


@contextmanager
def _translate_errors(problem: Problem) -> Iterator[None]:
    """Raise `problem` instead of the library's errors for an invalid or malformed credential."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from webauthn.helpers.exceptions import WebAuthnException

    try:
        yield
    except (WebAuthnException, UnsupportedAlgorithm, ValueError, TypeError, LookupError, AttributeError) as error:
        log_warning("a passkey was refused", reason=str(error)[:200])
        raise problem from None


def _encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _decode(text: str) -> bytes:
    """Return the bytes of Base64url without padding; b"" for any other text."""
    try:
        return base64.urlsafe_b64decode(f"{text}{'=' * (-len(text) % 4)}")
    except (binascii.Error, ValueError):
        return b""
