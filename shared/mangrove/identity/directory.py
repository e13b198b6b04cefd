"""Sign-in with a name and password of an LDAP directory.

The service searches for a user by name, and then checks the password by a bind. Accounts are found by name. Therefore
an account has to allow this sign-in (`allow_ldap`), and an administrator cannot use it.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

from mangrove.core.problems import AccessDenied, BadRequest, Problem, SecondFactorRequired, Unauthorized, Unreachable
from mangrove.core.telemetry import log_event, log_warning
from mangrove.identity import accounts, lockout, names, passwords
from mangrove.identity.rights import NORMAL
from mangrove.records import users
from mangrove.records.users import User

DIRECTORY_TIMEOUT_SECONDS = 5  # for a connection, and for an answer
MAX_DIRECTORY_ENTRIES = 2  # of a search result; two entries mean an ambiguous name
PORTS = {"ldap": 389, "ldaps": 636}


class LdapSettings(Protocol):
    """The settings of the directory, as in `mangrove.configuration.values.Settings`."""

    ldap_server: str
    ldap_skip_tls_verify: bool
    ldap_manager_dn: str
    ldap_manager_password: str
    ldap_user_search_base: str
    ldap_user_search_filter: str
    ldap_default_dir: str
    ldap_default_permission: int


def login(settings: LdapSettings, username: str, password: str, otp_code: str, source: str) -> str:
    """Return a session token. Raise Unauthorized, SecondFactorRequired, AccessDenied, TooMany, Unreachable or Problem.

    A user with a second factor needs a code. An account is created for a name without one.
    """
    lockout.ACCOUNTS.check(username, source)
    if len(password) > passwords.MAX_PASSWORD_LENGTH:
        raise BadRequest(f"a password may have at most {passwords.MAX_PASSWORD_LENGTH} characters")
    if not is_valid(settings, username, password):
        lockout.ACCOUNTS.record_failure(username, source)
        raise Unauthorized("Invalid username or password")
    user = users.find(username)
    if user is not None:
        if user.role != NORMAL or user.admin_claim or not user.allow_ldap:
            raise AccessDenied("login via ldap is not allowed")
        accounts.require_code(user, otp_code, source, SecondFactorRequired())
    lockout.ACCOUNTS.record_success(username, source)
    return accounts.open_session(user or _register(settings, username))


def _register(settings: LdapSettings, username: str) -> User:
    names.check(username)
    directory, permission = settings.ldap_default_dir or "/", settings.ldap_default_permission
    user = accounts.create(accounts.UserFields(username, directory, NORMAL, permission, False, "", True), "")
    log_event("an account was created for a user of the directory", user=user.username)
    return user


def is_valid(settings: LdapSettings, username: str, password: str) -> bool:
    """True if the directory has exactly one user of the name, who has the password. Raise Unreachable or Problem."""
    if not username or not password:
        return False  # a bind without a password succeeds anonymously
    if "%s" not in settings.ldap_user_search_filter:
        raise Problem("ldap_user_search_filter has no %s for the name")
    with _translate_errors():
        name = _find_user(settings, username)
        if name is None:
            return False
        with _open(settings) as connection:
            return bool(connection.rebind(user=name, password=password))


def _find_user(settings: LdapSettings, username: str) -> str | None:
    """Return the distinguished name of a user, None unless the search finds exactly one entry."""
    from ldap3 import SUBTREE
    from ldap3.utils.conv import escape_filter_chars

    text = settings.ldap_user_search_filter.replace("%s", escape_filter_chars(username))
    with _open(settings) as connection:
        if settings.ldap_manager_dn and not (
            settings.ldap_manager_password
            and connection.rebind(user=settings.ldap_manager_dn, password=settings.ldap_manager_password)
        ):
            raise Problem("the directory does not accept ldap_manager_dn and ldap_manager_password")
        connection.search(
            settings.ldap_user_search_base, text, search_scope=SUBTREE, attributes=["1.1"],
            size_limit=MAX_DIRECTORY_ENTRIES, time_limit=DIRECTORY_TIMEOUT_SECONDS,
        )  # fmt: skip
        entries = [entry["dn"] for entry in connection.response or () if entry.get("type") == "searchResEntry"]
        if connection.result["description"] not in ("success", "noSuchObject", "sizeLimitExceeded"):
            log_warning("the directory refuses a search", reason=connection.result["description"])
            raise Problem("the directory refuses the search: see the log")
    return str(entries[0]) if len(entries) == 1 and entries[0] else None


@contextmanager
def _open(settings: LdapSettings) -> Iterator[Any]:
    """Open an anonymous connection. It uses TLS, except for `ldap://` to this computer."""
    import certifi
    from ldap3 import ANONYMOUS, NONE, Connection, Server, Tls

    scheme, host, port = _parse_server(settings.ldap_server)
    address = _resolve(host, port)
    paths = ssl.get_default_verify_paths()
    tls = Tls(
        validate=ssl.CERT_NONE if settings.ldap_skip_tls_verify else ssl.CERT_REQUIRED,
        ca_certs_file=paths.cafile or certifi.where(), ca_certs_path=paths.capath, valid_names=[host], sni=host,
    )  # fmt: skip
    server = Server(
        str(address), port, use_ssl=scheme == "ldaps", tls=tls, get_info=NONE,
        connect_timeout=DIRECTORY_TIMEOUT_SECONDS, allowed_referral_hosts=[],
    )  # fmt: skip
    connection = Connection(
        server, authentication=ANONYMOUS, auto_referrals=False, receive_timeout=DIRECTORY_TIMEOUT_SECONDS
    )
    try:
        connection.open()
        if scheme == "ldap" and not address.is_loopback and not connection.start_tls():
            raise Problem("the directory has no TLS: a password would be sent in clear text")
        yield connection
    finally:
        connection.unbind()
        if connection.socket is not None:
            connection.socket.close()  # ldap3 leaves it open if the connection could not be opened


def _parse_server(text: str) -> tuple[str, str, int]:
    """Return scheme, host and port of the setting `ldap_server`. Raise Problem."""
    try:
        parts = urlsplit(text if "://" in text else f"ldap://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or parts.scheme not in PORTS:
        raise Problem("ldap_server is not an address such as ldaps://ldap.example.org")
    return parts.scheme, host, port or PORTS[parts.scheme]


def _resolve(host: str, port: int) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the first address of the directory that is not the address of a metadata service."""
    from mangrove.net.addresses import AddressPolicy, ForbiddenAddress

    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Unreachable("the directory was not found") from None
    policy = AddressPolicy.for_host(host)
    addresses = [ipaddress.ip_address(entry[4][0]) for entry in entries]
    for address in addresses:
        if policy.permits(host, address):
            return address
    raise ForbiddenAddress.for_host(host)


@contextmanager
def _translate_errors() -> Iterator[None]:
    from ldap3.core.exceptions import LDAPCommunicationError, LDAPException

    try:
        yield
    except LDAPCommunicationError as error:
        log_warning("the directory does not answer", reason=str(error)[:300])
        raise Unreachable("the directory does not answer, or not over a connection that is trusted") from None
    except (LDAPException, OSError) as error:
        log_warning("the directory refuses", reason=str(error)[:300])
        raise Problem("the directory refuses the request: see the log") from None
