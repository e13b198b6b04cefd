"""Sign-in by Basic or Digest (RFC 7616), as the server requires.

The Digest of httpx sends a body again that can be sent only once, fails on challenges with several algorithms, and
reads the whole answer that comes with a 401.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_PART = re.compile(
    r'[\s,]*(?:(?P<key>[\w-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]+))|(?P<scheme>[\w-]+)(?![\w=-]))'
)
_HASHES = {"MD5": "md5", "SHA-256": "sha256"}
_STRENGTH = ("SHA-256", "MD5")


def parse_challenges(headers: Sequence[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the challenges of all WWW-Authenticate headers: scheme and parameters, names in lower case."""
    scheme, parameters = "", dict[str, str]()
    for header in headers:
        for part in _PART.finditer(header):
            if part["scheme"]:
                if scheme:
                    yield scheme, parameters
                scheme, parameters = part["scheme"].lower(), {}
            else:
                quoted = part["quoted"]
                value = part["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
                parameters[part["key"].lower()] = value
        if scheme:
            yield scheme, parameters
        scheme, parameters = "", {}


@dataclass(slots=True)
class DigestChallenge:
    """A challenge of a server to sign requests by Digest."""

    realm: str
    nonce: str
    algorithm: str
    opaque: str | None
    has_qop: bool
    is_stale: bool = False
    count: int = 0
    """The number of requests signed with the nonce."""

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> DigestChallenge | None:
        """Return a challenge, or None if it needs another algorithm or a hash of the body."""
        algorithm = parameters.get("algorithm", "MD5").upper()
        qop = parameters.get("qop")
        if algorithm.removesuffix("-SESS") not in _HASHES or not parameters.get("nonce"):
            return None
        if qop is not None and "auth" not in re.split(r"[\s,]+", qop.lower()):
            return None
        is_stale = parameters.get("stale", "").lower() == "true"
        realm, opaque = parameters.get("realm", ""), parameters.get("opaque")
        return cls(realm, parameters["nonce"], algorithm, opaque, qop is not None, is_stale)

    def sign(self, username: str, password: str, method: str, target: str) -> str:
        """Return the Authorization header for a request; `target` is the path and query as sent."""
        self.count += 1
        count, cnonce = f"{self.count:08x}", secrets.token_hex(8)
        key = self._hash(f"{username}:{self.realm}:{password}")
        if self.algorithm.endswith("-SESS"):
            key = self._hash(f"{key}:{self.nonce}:{cnonce}")
        request = self._hash(f"{method}:{target}")
        middle = f"{count}:{cnonce}:auth:" if self.has_qop else ""
        response = self._hash(f"{key}:{self.nonce}:{middle}{request}")
        fields = [("username", username), ("realm", self.realm), ("nonce", self.nonce), ("uri", target)]
        fields += [("response", response)] + ([("opaque", self.opaque)] if self.opaque is not None else [])
        text = ", ".join(f"{name}={_quote(value)}" for name, value in fields)
        plain = f", qop=auth, nc={count}, cnonce={_quote(cnonce)}" if self.has_qop else ""
        return f"Digest {text}, algorithm={self.algorithm}{plain}"

    def _hash(self, text: str) -> str:
        name = _HASHES[self.algorithm.removesuffix("-SESS")]
        return hashlib.new(name, text.encode(), usedforsecurity=False).hexdigest()


def _quote(value: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


class WebDavCredentials:
    """A user name and password, and the method by which the server wants requests signed.

    Nothing is sent before the server's challenge: a server with Digest never gets the password.
    """

    def __init__(self, username: str, password: str) -> None:
        self._username = username
        self._password = password
        self._digest: DigestChallenge | None = None
        self._is_basic = False

    @property
    def is_method_known(self) -> bool:
        """True if requests can be signed, or there is no user."""
        return self._is_basic or self._digest is not None or not self._username

    def sign(self, method: str, target: str) -> bytes:
        """Return the Authorization header for a request; empty without a challenge."""
        if self._digest is not None:
            return self._digest.sign(self._username, self._password, method, target).encode()
        if self._is_basic:
            return b"Basic " + b64encode(f"{self._username}:{self._password}".encode())
        return b""

    def learn(self, headers: Sequence[str], refused: bytes, is_again: bool) -> bool:
        """Process the challenges of a 401. Return True if the same request, signed accordingly, may be accepted.

        `refused` is the header that was refused; `is_again`: it was signed for a challenge to the same request.
        """
        if not self._username:
            return False
        offered = list(parse_challenges(headers))
        digests = [DigestChallenge.parse(parameters) for scheme, parameters in offered if scheme == "digest"]
        usable = [challenge for challenge in digests if challenge is not None]
        if usable:
            self._digest = min(usable, key=lambda usable: _STRENGTH.index(usable.algorithm.removesuffix("-SESS")))
            return self._digest.is_stale or not is_again
        self._digest = None
        self._is_basic = any(scheme == "basic" for scheme, _ in offered)
        return self._is_basic and not refused.startswith(b"Basic ")
