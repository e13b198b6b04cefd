"""The keys of a stack: a new one has a token key that does not follow from the master key, an older one keeps what it
wrote and signed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mangrove.records.store import upgrade
from mangrove.records.store.keys import Key, derive_key
from tests.contract.scenarios import Person
from tests.support import lambdas

pytestmark = pytest.mark.xdist_group("cloud")
NAMES = {Key.INTEGRITY: "IntegrityKey", Key.TOKEN: "TokenKey", Key.ENCRYPTION: "MasterKey"}
WRITE_AS_BEFORE = """
import sys
from datetime import UTC, datetime
from mangrove.identity import passwords, tokens
from mangrove.records import settings, storages, users
from mangrove.records.store import upgrade

upgrade.upgrade(None, ())
hashed = passwords.hash_password(sys.argv[1])
admin = users.create(username="admin", password_hash=hashed, role=2, permission=0xFFFF)
users.create(username="guest", password_hash=hashed, role=1, disabled=True)
storages.create(
    mount_path="/old", driver="S3", status="work", modified=datetime.now(UTC), disabled=True,
    addition='{"bucket": "b", "region": "us-east-1", "secret_access_key": "hush"}',
)
settings.save({"token": "the permanent token", "link_salt": "s", "site_title": "The old title"})
print(tokens.issue(admin))
"""

SAVE_AS_BEFORE = """
from mangrove.records import settings

settings.save({"site_title": "Saved after a rollback"})
"""


def read_key(cloud: lambdas.Cloud, key: Key) -> str:
    answer = cloud.client("secretsmanager").get_secret_value(SecretId=cloud.refs[NAMES[key]])
    return str(answer["SecretString"])


def test_new_stack_gets_a_token_key_independent_of_the_master_key() -> None:
    with lambdas.deploy() as cloud:
        assert cloud.run_setup()["Status"] == "SUCCESS"
        first = {key: read_key(cloud, key) for key in Key}
        assert len(set(first.values())) == 3
        master = first[Key.ENCRYPTION].encode()
        assert bytes.fromhex(first[Key.TOKEN]) != derive_key(master, Key.TOKEN.value)
        assert bytes.fromhex(first[Key.INTEGRITY]) == derive_key(master, Key.INTEGRITY.value)
        assert cloud.run_setup()["Status"] == "SUCCESS"
        assert {key: read_key(cloud, key) for key in Key} == first, "the next deployment leaves them"


def delete_first_password(cloud: lambdas.Cloud) -> None:
    manager = cloud.client("secretsmanager")
    manager.delete_secret(SecretId=cloud.refs["AdminSecret"], ForceDeleteWithoutRecovery=True)


def test_new_stack_without_its_first_password_says_so() -> None:
    with lambdas.deploy() as cloud:
        delete_first_password(cloud)
        answer = cloud.run_setup()
    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("ResourceNotFoundException: ")
    assert "Secrets Manager can't find the specified secret" in answer["Reason"]


def run_as_before(cloud: lambdas.Cloud, folder: Path, code: str, *arguments: str) -> str:
    """Run code as a stack that has the master key alone. Return what it prints."""
    master = folder / "master"
    master.write_text(read_key(cloud, Key.ENCRYPTION))
    own = cloud.get_function("AuthFunction").environment | {
        "MANGROVE_KEY_FILE": str(master), "AWS_ENDPOINT_URL_DYNAMODB": cloud.aws[0], "PATH": os.environ["PATH"],
    }  # fmt: skip
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_older_stack_keeps_its_records_sessions_and_secrets(tmp_path: Path) -> None:
    with lambdas.deploy() as cloud:
        token = run_as_before(cloud, tmp_path, WRITE_AS_BEFORE, lambdas.ADMIN_PASSWORD)
        answer = cloud.run_setup(RequestType="Update", OldResourceProperties={"Schema": str(upgrade.VERSION)})
        assert answer["Status"] == "SUCCESS", answer
        master = read_key(cloud, Key.ENCRYPTION).encode()
        for key in (Key.INTEGRITY, Key.TOKEN):
            assert read_key(cloud, key) == derive_key(master, key.value).hex()
        admin = Person(cloud, token)
        assert admin.gets("auth/me")["username"] == "admin", "the session goes on"
        assert Person(cloud).sign_in("admin", lambdas.ADMIN_PASSWORD).gets("auth/me")["role"] == 2
        # the site has no key that decrypts it: the set-up stored what everybody may see in the clear
        assert Person(cloud).gets("site/public_settings")["site_title"] == "The old title"
        # an older program, after a rollback, saves a value without its text: the next deployment adds it
        run_as_before(cloud, tmp_path, SAVE_AS_BEFORE)
        delete_first_password(cloud)
        answer = cloud.run_setup(RequestType="Update", OldResourceProperties={"Schema": str(upgrade.VERSION)})
        assert answer["Status"] == "SUCCESS", "the secret of the first password is not needed any more"
        assert Person(cloud).gets("site/public_settings")["site_title"] == "Saved after a rollback"
        (storage,) = admin.gets("storages/list")["content"]
        assert json.loads(storage["addition"])["secret_access_key"] == "hush"


WRITE_AS_A_NEWER_PROGRAM = """
from mangrove.records.store import upgrade

upgrade.SchemaVersion(upgrade.KEY, value=upgrade.VERSION + 1, program="9.9.9").save()
"""


def test_set_up_meets_newer_records_and_succeeds_with_an_alarm(tmp_path: Path) -> None:
    """As while a deployment is rolled back: a failure would leave the stack in UPDATE_ROLLBACK_FAILED."""
    with lambdas.deploy() as cloud:
        assert cloud.run_setup()["Status"] == "SUCCESS"
        run_as_before(cloud, tmp_path, WRITE_AS_A_NEWER_PROGRAM)
        answer = cloud.run_setup(RequestType="Update", OldResourceProperties={"Schema": str(upgrade.VERSION + 1)})
        assert answer["Status"] == "SUCCESS", answer
        log = cloud.get_function_in("functions/workers/setup").read_log()
        assert '"NewerRecords":[1.0]' in log.replace(" ", "")
        assert "records are newer than the program" in log
