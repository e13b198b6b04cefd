"""The guest: what is open without a token."""

from __future__ import annotations

import json

from tests.contract.api.accounts import (
    GUEST_DISABLED,
    INVALIDATED,
    NOT_ADMIN,
    Caller,
    attempt,
    get_data,
    get_me,
    get_refusal,
    guest,
    stranger,
)
from tests.contract.api.test_gates import SIGN_INS
from tests.support.service import Client, Service

FOR_SHARES = {  # open to everybody for a path of a share, which the body has
    "/api/fs/list", "/api/fs/get", "/api/fs/search", "/api/fs/archive/list", "/api/fs/archive/meta",
}  # fmt: skip

FOR_ROOT: dict[str, str | int] = {"path": "/", "parent": "/", "keywords": "x", "page": 1, "per_page": 1}


# The guest
def test_disabled_guest_without_token_is_refused_everywhere(service: Service) -> None:
    nobody = stranger(service)
    operations = nobody.http.get("/openapi.json").json()["paths"]
    shut, open_ = {}, set()
    for path, methods in operations.items():
        for method, operation in methods.items():
            if not path.startswith("/api/"):
                continue
            content, query = (json.dumps(FOR_ROOT), FOR_ROOT) if path in FOR_SHARES else ("{", {})
            answer = nobody.envelope(nobody.http.request(method, path, content=content, params=query))
            if operation["x-gate"] == "anyone":
                open_.add(path)
            else:
                shut[f"{method} {path}"] = (answer["code"], answer["message"])
    assert len(shut) > 30
    wrong = {where: got for where, got in shut.items() if got != GUEST_DISABLED}
    assert {where for where, got in wrong.items() if "/multipart/" not in where or got[0] != 400} == set()  # of shares
    assert {path for path in open_ if not path.startswith(("/api/public/", "/api/auth/login"))} == SIGN_INS


def test_the_enabled_guest_is_a_user_of_role_1_without_a_token(service: Service, admin: Client, folder: str) -> None:
    with guest(admin) as visitor:
        row = get_data(visitor.get("/api/me"))
        assert (row["username"], row["role"], row["permission"], row["otp"]) == ("guest", 1, 0, False)
        assert visitor.names(folder) == []
        assert get_refusal(visitor.post("/api/fs/mkdir", path=f"{folder}/x")) == (403, "permission denied")
    assert get_refusal(stranger(service).post("/api/fs/list", path=folder)) == GUEST_DISABLED


def test_the_guest_has_no_profile_no_second_factor_and_no_keys(admin: Client) -> None:
    with guest(admin, permission=0xFFFF) as visitor:
        no_2fa = (403, "Guest user can not generate 2FA code")
        assert get_refusal(visitor.post("/api/auth/2fa/generate")) == no_2fa
        assert get_refusal(visitor.post("/api/auth/2fa/verify", code="123456", secret="A" * 32)) == no_2fa
        assert get_refusal(visitor.post("/api/me/update", username="guest", password="mine")) == (
            403,
            "Guest user can not update profile",
        )
        assert get_refusal(visitor.post("/api/me/update")) == (403, "Guest user can not update profile")
        for answer in (
            visitor.get("/api/me/sshkey/list"),
            visitor.post("/api/me/sshkey/add", title="t", key="k"),
            visitor.post("/api/me/sshkey/delete", params={"id": 1}),
            visitor.get("/api/me/app_password/list"),
            visitor.post("/api/me/app_password/add", title="t"),
            visitor.post("/api/me/app_password/delete", params={"id": 1}),
        ):
            assert get_refusal(answer) == (401, "user invalid")


def test_the_guest_is_confined_to_his_base_path(admin: Client, folder: str) -> None:
    admin.ok("/api/fs/mkdir", path=f"{folder}/open/inner")
    admin.ok("/api/fs/mkdir", path=f"{folder}/shut")
    with guest(admin, base_path=f"{folder}/open") as visitor:
        assert visitor.names("/") == ["inner"]
        assert visitor.post("/api/fs/list", path="/../shut")["code"] == 403
        assert visitor.post("/api/fs/list", path=f"{folder}/shut")["code"] == 500


def test_a_garbage_token_does_not_fall_back_to_the_guest(service: Service, admin: Client) -> None:
    with guest(admin):
        assert get_refusal(get_me(service, "garbage")) == INVALIDATED


def test_the_guest_signed_in_by_password_is_as_shut_out_as_without(service: Service, admin: Client) -> None:
    answer = attempt(stranger(service), "guest", "guest")
    token = get_data(answer)["token"]
    assert get_refusal(get_me(service, token))[0] == 401
    with guest(admin):
        assert get_refusal(Caller(service.address, token).post("/api/auth/2fa/generate"))[0] == 403
        assert get_refusal(Caller(service.address, token).get("/api/admin/user/list")) == NOT_ADMIN
