"""Passkeys: the public keys of WebAuthn credentials. Each belongs to one user."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from mangrove.core.problems import BadRequest
from mangrove.records.credentials import CredentialRepository, make_user_index
from mangrove.records.store import repository
from mangrove.records.store.base import RecordConflict, TableMeta, Versioned, table_name


@dataclass(frozen=True, slots=True)
class Passkey:
    """A passkey."""

    id: int
    user_id: int
    title: str
    name: str
    """The id that the authenticator gave the credential, in Base64url; unique."""
    public_key: str
    """The COSE key, in Base64url."""
    sign_count: int
    """The signature counter of the last use."""
    aaguid: str
    """The model of the authenticator, a UUID."""
    added: datetime
    last_used: datetime


class PasskeyRecord(Versioned):
    class Meta(TableMeta):
        table_name = table_name("passkeys")
        value = Passkey

    by_user = make_user_index()


passkeys = CredentialRepository(
    "passkeys", PasskeyRecord, Passkey, "this passkey is registered already", "failed to get passkey"
)


def find_by_credential(credential_id: str) -> Passkey | None:
    """Return the passkey of a credential id in Base64url, None if there is none."""
    try:
        id = repository.find_owner(repository.make_name(passkeys.name, credential_id))
    except BadRequest:
        return None
    passkey = None if id is None else passkeys.get_many([id]).get(id)
    return passkey if passkey is not None and passkey.name == credential_id else None


def save_use(passkey: Passkey, sign_count: int) -> None:
    """Store the counter of a use. Raise RecordConflict if the passkey was used since it was read."""
    record = passkeys.get_record(passkey.id)
    if record.sign_count != passkey.sign_count:
        raise RecordConflict
    record.sign_count, record.last_used = sign_count, datetime.now(UTC)
    passkeys.save(record)
