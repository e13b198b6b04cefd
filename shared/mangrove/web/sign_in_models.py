"""Bodies and answers of sign-ins without a password, as they are validated and documented."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from mangrove.web.framework import Body, Model
from mangrove.web.models import AddedTime, LastUsedTime, Text, Title

MAX_CREDENTIAL_CHARACTERS = 16_384  # of one part of a credential, in Base64url


class CredentialPart(Body):
    model_config = ConfigDict(populate_by_name=True)


class AttestationParts(CredentialPart):
    client_data: str = Field(
        "", alias="clientDataJSON", max_length=MAX_CREDENTIAL_CHARACTERS, description="Client data, in Base64url."
    )
    attestation: str = Field(
        "",
        alias="attestationObject",
        max_length=MAX_CREDENTIAL_CHARACTERS,
        description="The attestation object, in Base64url.",
    )


class AssertionParts(CredentialPart):
    client_data: str = Field(
        "", alias="clientDataJSON", max_length=MAX_CREDENTIAL_CHARACTERS, description="Client data, in Base64url."
    )
    authenticator_data: str = Field(
        "",
        alias="authenticatorData",
        max_length=MAX_CREDENTIAL_CHARACTERS,
        description="Data of the authenticator, in Base64url.",
    )
    signature: str = Field("", max_length=MAX_CREDENTIAL_CHARACTERS, description="The signature, in Base64url.")
    user_handle: str = Field("", alias="userHandle", max_length=128, description="User handle, in Base64url.")


class CredentialReq(CredentialPart):
    id: Text = Field("", description="Id of the credential, in Base64url.")
    raw_id: Text = Field("", alias="rawId", description="The same as `id`.")
    type: Text = Field("", description="`public-key`.")


class AttestationReq(CredentialReq):
    response: AttestationParts = Field(
        default_factory=AttestationParts, description="Result of `navigator.credentials.create`."
    )


class AssertionReq(CredentialReq):
    response: AssertionParts = Field(
        default_factory=AssertionParts, description="Result of `navigator.credentials.get`."
    )


class DeletePasskeyReq(Body):
    id: Text = Field("", description="Id of the credential, in Base64.")


class PasskeyChallenge(Model):
    options: dict[str, Any] = Field(description="The options of `navigator.credentials`, with bytes in Base64url.")
    session: str = Field(description="To be sent in the header `session` of the request that finishes.")


class PasskeyRow(Model):
    id: str = Field(description="Id of the credential, in Base64.")
    fingerprint: str = Field(description="Model of the authenticator (AAGUID), as hexadecimal bytes.")
    title: Title
    added_time: AddedTime
    last_used_time: LastUsedTime
