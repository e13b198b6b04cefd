"""An identity provider on loopback that signs what a test tells it to, also what no honest provider signs."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from joserfc import jwk, jwt

CLIENT_ID, CLIENT_SECRET = "mangrove", "a secret"
CODE = "the code"
Claims = dict[str, Any]


def make_key(id: str) -> Any:
    return jwk.RSAKey.generate_key(2048, parameters={"kid": id, "use": "sig", "alg": "RS256"})


KEY, OTHER_KEY = make_key("first"), make_key("second")


@dataclass
class IdentityProvider:
    """Answers the requests of the service. The nonce of a token is that of the address where a sign-in begins."""

    address: str = ""
    folder: str = ""
    """The path of the issuer, with a leading slash."""
    subject: str = "248289761001"
    claims: Claims = field(default_factory=dict)
    """That replace those of a right token."""
    userinfo: Claims = field(default_factory=dict)
    metadata: Claims = field(default_factory=dict)
    key: Any = field(default_factory=lambda: KEY)
    published: list[Any] = field(default_factory=lambda: [KEY])
    make_token: Callable[[Claims], str] | None = None
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path and form of each request."""
    user: Claims = field(default_factory=lambda: {"id": 583231, "login": "octocat"})
    """Of GitHub."""
    nonce: str = ""
    refusal: Claims = field(default_factory=dict)
    """The answer to a code, with the status 200."""
    agents: list[str] = field(default_factory=list)
    """The user agent of each request."""

    @property
    def issuer(self) -> str:
        return self.address + self.folder

    def begin(self, url: str) -> dict[str, str]:
        """Do the part of the browser: return the parameters with which it comes back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        self.nonce = query.get("nonce", "")
        return {"code": CODE, "state": query["state"]}

    def answer(self, path: str, form: dict[str, str], headers: Mapping[str, str]) -> tuple[int, Any]:
        self.requests.append((path, form))
        self.agents.append(headers.get("user-agent", ""))
        if path == f"{self.folder}/.well-known/openid-configuration":
            return 200, self._describe()
        if path == "/jwks":
            keys = [key if isinstance(key, dict) else key.as_dict(private=False) for key in self.published]
            return 200, {"keys": keys}
        if path == "/userinfo":
            return 200, {"sub": self.subject} | self.userinfo
        if path == "/api/v3/user":
            return 200, self.user
        if path in ("/token", "/login/oauth/access_token"):
            return self._issue(form, headers)
        return 404, {}

    def _describe(self) -> Claims:
        names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "userinfo_endpoint": "userinfo"}
        endpoints = {name: f"{self.address}/{path}" for name, path in names.items()}
        return {"issuer": self.issuer, "jwks_uri": f"{self.address}/jwks"} | endpoints | self.metadata

    def _issue(self, form: dict[str, str], headers: Mapping[str, str]) -> tuple[int, Any]:
        secret = b64decode(headers.get("authorization", "").removeprefix("Basic ")).decode().partition(":")[2]
        if form.get("code") != CODE or unquote(secret or form["client_secret"]) != CLIENT_SECRET:
            return 400, {"error": "invalid_grant"}
        if self.refusal:
            return 200, self.refusal
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": self._sign()}

    def _sign(self) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer, "sub": self.subject, "aud": CLIENT_ID, "nonce": self.nonce, "iat": now,
            "exp": now + 300, "name": "ann",
        }  # fmt: skip
        claims = {name: value for name, value in (claims | self.claims).items() if value is not None}
        if self.make_token is not None:
            return self.make_token(claims)
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key)


@contextmanager
def run_identity_provider() -> Iterator[IdentityProvider]:
    """Run a provider on a port of its own."""
    provider = IdentityProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers.get("content-length", 0))).decode())
            status, content = provider.answer(
                urlsplit(self.path).path, {name: values[0] for name, values in form.items()}, self.headers
            )
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.address = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
