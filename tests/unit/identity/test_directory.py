"""Sign-in with a directory, against slapd."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyotp
import pytest

from mangrove.core.problems import AccessDenied, BadRequest, Problem, SecondFactorRequired, TooMany, Unauthorized
from mangrove.identity import accounts, directory, lockout
from mangrove.identity.accounts import UserFields
from mangrove.records import users
from mangrove.records.users import User
from tests.support.slapd import BASE, MANAGER, MANAGER_PASSWORD, PASSWORD, PEOPLE, Directory, run_slapd

pytestmark = pytest.mark.usefixtures("records")
SOURCE = "1.2.3.4"


@dataclass(frozen=True)
class Settings:
    ldap_server: str
    ldap_skip_tls_verify: bool = False
    ldap_manager_dn: str = MANAGER
    ldap_manager_password: str = MANAGER_PASSWORD
    ldap_user_search_base: str = BASE
    ldap_user_search_filter: str = "(uid=%s)"
    ldap_default_dir: str = "/homes"
    ldap_default_permission: int = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    with run_slapd(tmp_path_factory.mktemp("slapd")) as server:
        yield server


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for the directory than a loaded computer may keep it from answering."""
    monkeypatch.setattr(directory, "DIRECTORY_TIMEOUT_SECONDS", 60)


@pytest.fixture
def settings(server: Directory) -> Settings:
    return Settings(server.plain)


def create_user(name: str = "ann", **changes: Any) -> User:
    return accounts.create(replace(UserFields(name, "/", 0, 0, False, "", True), **changes), "a local password")


def login(settings: Settings, username: str = "ann", password: str = PASSWORD, code: str = "") -> str:
    return directory.login(settings, username, password, code, SOURCE)


def test_first_sign_in_creates_an_account_and_the_next_one_finds_it(settings: Settings) -> None:
    assert login(settings).count(".") == 2
    user = users.find("ann")
    assert user is not None and (user.base_path, user.permission, user.role) == ("/homes", 8, 0)
    assert login(settings)
    assert len(users.all()) == 1
    with pytest.raises(Unauthorized):  # its local password is unknown
        accounts.login("ann", "", "", SOURCE, users.find)


@pytest.mark.parametrize(
    ("username", "password"),
    [
        ("ann", "wrong"),
        ("ann", ""),
        ("nobody", PASSWORD),
        ("", PASSWORD),
        ("*", PASSWORD),
        ("an*", PASSWORD),
        ("ann)(uid=*", PASSWORD),
        ("nobody)(|(uid=ann", PASSWORD),
        ("ann\0", PASSWORD),
        ("twin", PASSWORD),  # two entries
    ],
)
def test_name_or_password_that_is_wrong_is_refused(settings: Settings, username: str, password: str) -> None:
    with pytest.raises(Unauthorized, match="Invalid username or password"):
        login(settings, username, password)
    assert not users.all()


def test_name_with_letters_of_filters_is_found(settings: Settings) -> None:
    assert directory.is_valid(settings, PEOPLE["odd"], PASSWORD)


def test_account_that_does_not_allow_it_is_refused(settings: Settings) -> None:
    create_user(allow_ldap=False)
    with pytest.raises(AccessDenied, match="login via ldap is not allowed"):
        login(settings)
    users.create(username="admin", password_hash="x", role=2)
    with pytest.raises(AccessDenied, match="login via ldap is not allowed"):
        login(settings, "admin")


def test_account_with_a_second_factor_needs_a_code(settings: Settings) -> None:
    ann, secret = create_user(), pyotp.random_base32(32)
    users.change(ann.id, otp_secret=secret)
    for code in ("", "000000"):
        with pytest.raises(SecondFactorRequired):
            login(settings, code=code)
    assert login(settings, code=pyotp.TOTP(secret).now())


def test_disabled_account_stays_out(settings: Settings) -> None:
    users.change(create_user().id, disabled=True)
    with pytest.raises(Unauthorized, match="disabled"):
        login(settings)


def test_failures_lock_the_account_for_the_source(settings: Settings) -> None:
    for _ in range(lockout.MAX_FAILURES_PER_PAIR):
        with pytest.raises(Unauthorized):
            login(settings, password="wrong")
    with pytest.raises(TooMany):
        login(settings)


def test_certificate_is_verified_unless_the_setting_says_otherwise(
    server: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(server.secure)
    with pytest.raises(Problem, match="trusted"):
        login(settings)
    assert login(replace(settings, ldap_skip_tls_verify=True))
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    assert login(settings)
    with pytest.raises(Problem, match="trusted"):
        login(replace(settings, ldap_server=server.secure.replace("localhost", "127.0.0.1")))


@pytest.mark.parametrize(
    "changes",
    [
        {"ldap_manager_password": "wrong"},
        {"ldap_manager_password": ""},
        {"ldap_user_search_filter": "(uid=ann)"},
        {"ldap_user_search_filter": "(uid=%s"},
        {"ldap_server": ""},
        {"ldap_server": "http://127.0.0.1"},
        {"ldap_server": "ldap://127.0.0.1:1"},
        {"ldap_server": "ldap://127.0.0.1:port"},
        {"ldap_server": "ldap://169.254.169.254"},
    ],
)
def test_settings_that_do_not_work_are_refused(settings: Settings, changes: dict[str, str]) -> None:
    with pytest.raises(Problem) as caught:
        login(replace(settings, **changes))
    assert not isinstance(caught.value, Unauthorized)
    assert not users.all()


def test_search_without_a_manager_finds_nobody_here(settings: Settings) -> None:
    with pytest.raises((Unauthorized, Problem)):
        login(replace(settings, ldap_manager_dn="", ldap_manager_password=""))


def test_password_that_is_too_long_is_refused(settings: Settings) -> None:
    with pytest.raises(BadRequest, match="at most"):
        login(settings, password="x" * 100_000)
