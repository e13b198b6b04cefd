"""The second factor: enrolment, codes at sign-in, cancelling it."""

from __future__ import annotations

import base64
import io
import re
from concurrent.futures import ThreadPoolExecutor

import pyotp
from PIL import Image

from tests.contract.api.accounts import (
    SECOND_FACTOR,
    WRONG,
    People,
    enrol,
    get_data,
    get_me,
    get_refusal,
    make_code,
    make_static_hash,
    make_wrong_code,
    stranger,
)
from tests.support.service import Client, Service


def test_generate_offers_a_secret_and_its_picture_and_stores_nothing(service: Service, accounts: People) -> None:
    person = accounts.new()
    first, second = (get_data(person.client.post("/api/auth/2fa/generate")) for _ in range(2))
    assert set(first) == {"qr", "secret"}
    assert re.fullmatch("[A-Z2-7]{32}", first["secret"])
    assert first["secret"] != second["secret"]
    kind, _, picture = first["qr"].partition(",")
    assert kind == "data:image/png;base64"
    image = Image.open(io.BytesIO(base64.b64decode(picture, validate=True)))
    assert image.format == "PNG" and min(image.size) >= 400
    assert get_data(person.client.get("/api/me"))["otp"] is False
    assert get_data(person.login(service))["token"]


def test_enrolment_needs_a_code_that_fits_the_secret(service: Service, accounts: People) -> None:
    person = accounts.new()
    secret = pyotp.random_base32(32)
    for text in (
        make_wrong_code(secret),
        make_code(secret) + "0",
        make_code(secret)[:5],
        "abcdef",
        make_code(secret, 5),
        make_code(secret, -5),
    ):
        answer = person.client.post("/api/auth/2fa/verify", code=text, secret=secret)
        assert get_refusal(answer) == (400, "Invalid 2FA code")
    for body, lines in (
        ({"secret": secret}, ["Code"]),
        ({"code": "123456"}, ["Secret"]),
        ({}, ["Code", "Secret"]),
    ):
        expected = (400, "\n".join(f"{name.lower()} is required" for name in lines))
        assert get_refusal(person.client.post("/api/auth/2fa/verify", **body)) == expected
    assert get_data(person.client.get("/api/me"))["otp"] is False


def test_enrolment_refuses_a_secret_that_is_none(accounts: People) -> None:
    client = accounts.new().client
    for weak in ("A", "AAAA", "MFRGG===", "not base32 at all!", "1" * 32, "A" * 4000):
        try:
            text = pyotp.TOTP(weak).now()
        except ValueError:
            text = "123456"
        assert client.post("/api/auth/2fa/verify", code=text, secret=weak)["code"] == 400
    assert get_data(client.get("/api/me"))["otp"] is False


def test_login_with_a_second_factor_asks_for_the_code_with_402(service: Service, accounts: People) -> None:
    person = accounts.new()
    secret = enrol(person)
    assert get_data(person.client.get("/api/me"))["otp"] is True
    assert get_refusal(person.login(service)) == SECOND_FACTOR
    assert get_refusal(person.login(service, otp_code="")) == SECOND_FACTOR
    assert get_refusal(person.login(service, otp_code=make_wrong_code(secret))) == SECOND_FACTOR
    token = get_data(person.login(service, otp_code=make_code(secret)))["token"]
    assert get_data(get_me(service, token))["otp"] is True


def test_the_hash_login_asks_for_the_code_too(service: Service, accounts: People) -> None:
    person = accounts.new()
    secret = enrol(person)
    body = {"username": person.name, "password": make_static_hash(person.password)}
    assert get_refusal(stranger(service).post("/api/auth/login/hash", **body)) == SECOND_FACTOR
    assert get_data(stranger(service).post("/api/auth/login/hash", **body, otp_code=make_code(secret)))["token"]


def test_a_wrong_password_is_told_before_the_code_is_looked_at(service: Service, accounts: People) -> None:
    person = accounts.new()
    secret = enrol(person)
    right = make_code(secret)
    assert get_refusal(person.login(service, "wrong", otp_code=right)) == WRONG
    assert get_data(person.login(service, otp_code=right))["token"]


def test_a_code_is_good_once(service: Service, accounts: People) -> None:
    person = accounts.new()
    secret = enrol(person)
    spent = make_code(secret)
    assert get_data(person.login(service, otp_code=spent))["token"]
    assert get_refusal(person.login(service, otp_code=spent)) == SECOND_FACTOR
    assert get_data(person.login(service, otp_code=make_code(secret, 1)))["token"]
    assert get_refusal(person.login(service, otp_code=spent)) == SECOND_FACTOR


def test_of_many_logins_with_one_code_at_the_same_time_one_gets_in(service: Service, accounts: People) -> None:
    person = accounts.new()
    spent = make_code(enrol(person))
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: person.login(service, otp_code=spent), range(6)))
    assert sorted(answer["code"] for answer in answers) == [200] + [402] * 5


def test_codes_are_taken_from_one_step_around_now_and_no_further(service: Service, accounts: People) -> None:
    person = accounts.new()
    secret = enrol(person)
    for step in (-3, -2, 2, 3):
        assert get_refusal(person.login(service, otp_code=make_code(secret, step, 12))) == SECOND_FACTOR
    for step in (0, 1):
        assert get_data(person.login(service, otp_code=make_code(secret, step)))["token"]


def test_the_administrator_cancels_a_second_factor(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new()
    enrol(person)
    assert get_data(admin.post("/api/admin/user/cancel_2fa", params={"id": person.id})) is None
    token = get_data(person.login(service))["token"]
    assert get_data(get_me(service, token))["otp"] is False
    assert get_data(admin.post("/api/admin/user/cancel_2fa", params={"id": person.id})) is None
    missing = admin.post("/api/admin/user/cancel_2fa", params={"id": 10**9})
    assert get_refusal(missing) == (500, "failed get old user: record not found")


def test_an_update_by_the_administrator_or_oneself_keeps_the_second_factor(
    service: Service, admin: Client, accounts: People
) -> None:
    person = accounts.new()
    enrol(person)
    get_data(admin.post("/api/admin/user/update", **person.row(admin)))
    get_data(person.client.post("/api/me/update", username=person.name, password="another one"))
    assert get_refusal(person.login(service, "another one")) == SECOND_FACTOR


def test_the_secret_is_in_no_answer_after_enrolment(admin: Client, accounts: People) -> None:
    person = accounts.new()
    secret = enrol(person)
    for text in (person.client.http.get("/api/me").text, admin.http.get("/api/admin/user/list").text):
        assert secret not in text
    assert "otp" not in person.row(admin)
