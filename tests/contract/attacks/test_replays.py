"""Answers of a sign-in that are sent again, at once and later, to a service of two processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import httpx
import oidc_provider_mock
import pytest

from mangrove.identity.lockout import MAX_FAILURES_PER_PAIR
from tests.contract.api.test_passkeys import AUTHN, find_origin
from tests.contract.api.test_single_sign_on import Browser
from tests.support.authenticator import Authenticator
from tests.support.service import Client, Service, run_forked

REPLAY_COUNT = 16  # connections, enough for both processes
ROUNDS = 4  # of fewer connections than lock their address out


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_forked(tmp_path_factory.mktemp("replays") / "data", MANGROVE_PROCESSES="2") as service:
        assert len(service.list_servers()) == 2
        yield service


def save(service: Service, **values: str) -> None:
    admin = service.client()
    rows = [{"key": key, "value": value} for key, value in values.items()]
    assert admin.envelope(admin.http.post("/api/admin/setting/save", json=rows))["code"] == 200


def replay(
    send: Callable[[httpx.Client], httpx.Response], count: int = REPLAY_COUNT, address: str = "127.0.0.1"
) -> list[httpx.Response]:
    """Send a request from an address by many connections at the same time."""
    barrier = Barrier(count)

    def send_with_others(_: int) -> httpx.Response:
        with httpx.Client(timeout=60, transport=httpx.HTTPTransport(local_address=address)) as client:
            barrier.wait()
            return send(client)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(send_with_others, range(count)))


def test_challenge_of_a_passkey_is_used_once_by_two_processes(two_processes: Service) -> None:
    save(two_processes, webauthn_login_enabled="true")
    origin = find_origin(two_processes)
    client, authenticator = Client(origin, two_processes.client().token), Authenticator(origin)

    def finish(verb: str, begun: Any, credential: Any, token: str = "") -> list[int]:
        headers = {"session": begun["session"], "authorization": token}
        answers = replay(lambda http: http.post(f"{origin}{AUTHN}/{verb}", json=credential, headers=headers))
        return sorted(answer.json()["code"] for answer in answers)

    begun = client.get(f"{AUTHN}/webauthn_begin_registration")["data"]
    credential = authenticator.create(begun["options"])
    once = [200] + [400] * (REPLAY_COUNT - 1)
    assert finish("webauthn_finish_registration", begun, credential, client.token) == once
    begun = client.get(f"{AUTHN}/webauthn_begin_login")["data"]
    credential = authenticator.get(begun["options"])
    assert finish("webauthn_finish_login", begun, credential) == once
    assert finish("webauthn_finish_login", begun, credential) == [400] * REPLAY_COUNT


def test_answer_of_a_provider_is_used_once_by_two_processes(two_processes: Service) -> None:
    with oidc_provider_mock.run_server_in_thread(require_nonce=True) as server:
        save(
            two_processes, sso_login_enabled="true", sso_login_platform="OIDC", sso_client_id="mangrove",
            sso_client_secret="not a secret", sso_endpoint_name=f"http://localhost:{server.server_port}",
            sso_auto_register="true", sso_oidc_username_key="email",
        )  # fmt: skip
        browser = Browser(two_processes)
        for number in range(ROUNDS):
            url = browser.consent(browser.begin(), "ann@example.org")
            cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.http.cookies.jar)
            come_back = partial(httpx.Client.get, url=url, headers={"cookie": cookies})
            answers = replay(come_back, MAX_FAILURES_PER_PAIR - 1, f"127.0.0.{number + 2}")
            refused = [answer for answer in answers if not answer.headers["content-type"].startswith("text/html")]
            messages = {answer.json()["message"] for answer in refused}
            assert messages == {"incorrect or expired state parameter"}
            assert len(refused) == len(answers) - 1
