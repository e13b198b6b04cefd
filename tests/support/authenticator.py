"""An authenticator in software: makes discoverable WebAuthn credentials and signs with them."""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

PRESENT, VERIFIED, ATTESTED = 1, 4, 64  # flags
AAGUID = bytes(range(16))


def encode(value: bytes) -> str:
    """Return Base64url without padding."""
    return urlsafe_b64encode(value).decode().rstrip("=")


def decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class Authenticator:
    """One credential for a site, with the flags and the counter that a test sets."""

    origin: str
    flags: int = PRESENT | VERIFIED
    sign_count: int = 0
    rp_id: str = ""  # "" for that of the options
    credential_id: bytes = field(default_factory=lambda: token_bytes(32))
    key: EllipticCurvePrivateKey = field(default_factory=lambda: generate_private_key(SECP256R1()))
    user_handle: bytes = b""

    def create(self, options: dict[str, Any]) -> dict[str, Any]:
        """Answer `navigator.credentials.create`."""
        public = options["publicKey"]
        self.user_handle = decode(public["user"]["id"])
        numbers = self.key.public_key().public_numbers()
        cose = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)}
        attested = AAGUID + len(self.credential_id).to_bytes(2) + self.credential_id + cbor2.dumps(cose)
        data = self._make_data(public["rp"]["id"], self.flags | ATTESTED) + attested
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client_data = self._make_client_data("webauthn.create", public["challenge"])
        return self._make_credential(clientDataJSON=encode(client_data), attestationObject=encode(attestation))

    def get(self, options: dict[str, Any]) -> dict[str, Any]:
        """Answer `navigator.credentials.get`; the counter rises first."""
        public = options["publicKey"]
        self.sign_count += 1
        data = self._make_data(public["rpId"], self.flags)
        client_data = self._make_client_data("webauthn.get", public["challenge"])
        signature = self.key.sign(data + hashlib.sha256(client_data).digest(), ECDSA(SHA256()))
        return self._make_credential(
            clientDataJSON=encode(client_data),
            authenticatorData=encode(data),
            signature=encode(signature),
            userHandle=encode(self.user_handle),
        )

    def _make_data(self, rp_id: str, flags: int) -> bytes:
        return hashlib.sha256((self.rp_id or rp_id).encode()).digest() + bytes([flags]) + self.sign_count.to_bytes(4)

    def _make_client_data(self, kind: str, challenge: str) -> bytes:
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin}).encode()

    def _make_credential(self, **response: str) -> dict[str, Any]:
        id = encode(self.credential_id)
        return {"id": id, "rawId": id, "type": "public-key", "response": response}
