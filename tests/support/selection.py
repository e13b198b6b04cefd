"""The choice of tests for `make test`: those that find most defects in a few minutes.

The others have the marker `rest` and run in `make test-rest`. Of the products of many inputs a random sample runs in
`make test`; these tests have the marker `sample`, and `make test-rest` runs the whole product. The seed of the sample
is in the header of the run, and MANGROVE_TEST_SEED repeats it. Of a test that has a parameter `seed`, seed 0 runs in
`make test`.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.contract.drivers import suite

SEED_VARIABLE = "MANGROVE_TEST_SEED"
SAMPLE_SHARE = 0.1
SERVERS = pytest.StashKey[dict[str, str]]()  # module → the first server that it starts
SMOKE_FAMILIES = (suite.file_cases, suite.read_cases, suite.write_cases, suite.listing_cases, suite.change_cases)
SECOND_SERVERS = ("tests/protocol/test_sftp_servers.py",)  # of a protocol; the first one has the smoke families
PRODUCTS = (  # files, and tests with many parameters
    "tests/contract/attacks/test_escapes.py",
    "tests/contract/attacks/test_fields.py",
    "tests/contract/attacks/test_input.py",
    "tests/contract/attacks/test_record_paths.py",
    "tests/contract/attacks/test_verbs.py",
    "tests/contract/attacks/test_disk_links.py",
    "tests/contract/test_machines.py::test_a_machine_runs_here_as_it_does_in_step_functions",
    "tests/crash/test_checkpoints.py",
    "tests/unit/drivers/s3/test_conditions.py::test_what_is_free_is_taken_and_what_is_there_is_kept_by_every_server",
    "tests/unit/records/test_unreachable.py::test_an_answer_that_breaks_off_or_is_none_is_a_problem_worth_a_retry",
    "tests/unit/tasks/test_compress.py::test_archive_is_whole_after_a_worker_died",
    "tests/unit/tasks/test_endpoints.py::test_what_is_moved_onto_itself_through_another_mount_is_not_lost",
    "tests/unit/tasks/test_moves.py::test_moves_are_durable_always_and_copies_as_the_setting_says",
    "tests/unit/tasks/test_moves.py::test_version_put_before_removal_stays_and_fails_by_name",
    "tests/unit/tasks/test_moving_trash.py::test_removal_killed_at_a_checkpoint_is_one_entry_in_the_end",
    "tests/unit/tasks/test_moving_trash.py::test_restore_killed_at_a_checkpoint_has_every_file_in_the_end",
    "tests/unit/tasks/test_renames.py::test_killed_at_any_call_nothing_is_lost_and_the_next_run_ends_it",
)
REST = (  # files and folders that `make test` leaves out
    "tests/contract/api/dav/test_dav_limits.py",
    "tests/contract/api/dav/test_dav_quotas.py",
    "tests/contract/api/search/test_search_corrections.py",
    "tests/contract/api/search/test_search_rights.py",
    "tests/contract/api/search/test_search_shares_processes.py",
    "tests/contract/api/test_metrics.py",
    "tests/contract/api/test_offline_download_work.py",
    "tests/contract/api/test_shared_races.py",
    "tests/contract/api/test_slow_verbs.py",
    "tests/contract/attacks/",
    "tests/contract/client/test_fsspec.py",
    "tests/contract/drivers/test_nested.py",
    "tests/contract/drivers/test_nested_policies.py",
    "tests/contract/test_answers.py",
    "tests/contract/test_bucket_events.py",
    "tests/contract/test_calls.py",
    "tests/contract/test_distribution.py",
    "tests/contract/test_events.py",
    "tests/contract/test_function_url.py",
    "tests/contract/test_key_secrets.py",
    "tests/contract/test_many_executions.py",
    "tests/contract/test_request_keys_in_cloud.py",
    "tests/contract/test_rights.py",
    "tests/contract/test_upgrade.py",
    "tests/contract/test_walkthroughs.py",
    "tests/crash/",
    "tests/e2e/",
    "tests/protocol/",
    "tests/soak/",
    "tests/unit/search/test_changes_random.py",
    "tests/unit/standalone/test_preload.py",
    "tests/unit/standalone/test_upgrade.py",
    "tests/unit/tasks/test_file_copy_parts.py",
    "tests/unit/tasks/test_index_parts.py",
    "tests/unit/tasks/test_lost_plans.py",
)
REST_EXCEPTIONS = (  # of those, files that it runs
    "tests/contract/attacks/test_lockout.py",
    "tests/contract/attacks/test_rules.py",
    "tests/contract/attacks/test_sessions.py",
    "tests/e2e/test_password.py",
    "tests/e2e/test_restart.py",
    "tests/e2e/page/test_journey.py",
    "tests/protocol/protocols/test_sftp_sign_in.py",
)


CHOICE = "not long and not rest"  # the expression of `make test`
SUITES = (  # of REST, files with cases that `make test` runs
    "tests/protocol/test_ftp_suite.py",
    "tests/protocol/test_ftp_tls.py",
    "tests/protocol/test_sftp_openssh.py",
    "tests/protocol/test_smb_samba.py",
    "tests/protocol/test_webdav_suite.py",
)


def get_seed() -> str:
    """Return the seed of this run; the processes of xdist share it."""
    return os.environ.setdefault(SEED_VARIABLE, str(random.randrange(1_000_000)))


def mark_item(item: pytest.Item) -> None:
    """Give an item the marker `rest` or `sample`, or none."""
    path = item.nodeid.partition("::")[0]
    if item.get_closest_marker("long"):
        return
    if _get_case(item) is not None:
        if not _is_smoke(item, path):
            item.add_marker("rest")
    elif path in PRODUCTS or item.nodeid.partition("[")[0] in PRODUCTS:
        chance = random.Random(f"{get_seed()} {item.nodeid}").random()
        item.add_marker("sample" if chance < SAMPLE_SHARE else "rest")
    elif (path.startswith(REST) and path not in REST_EXCEPTIONS) or _get_parameters(item).get("seed") not in (None, 0):
        item.add_marker("rest")


def is_left_out(path: str, expression: str) -> bool:
    """Return True for a file of which `make test` runs no test: it need not be imported."""
    products = {name.partition("::")[0] for name in PRODUCTS}
    return (
        expression == CHOICE
        and path.startswith(REST)
        and not (path in REST_EXCEPTIONS or path in products or path in SUITES)
    )


def _get_parameters(item: pytest.Item) -> dict[str, object]:
    return dict(getattr(getattr(item, "callspec", None), "params", {}))


def _get_case(item: pytest.Item) -> str | None:
    """Return the name of the case of the driver suite that an item runs."""
    case = _get_parameters(item).get("case")
    return case if isinstance(case, str) and case in suite.CASES else None


def _is_smoke(item: pytest.Item, path: str) -> bool:
    """Return True for cases of the smoke families, on the first server that a module starts."""
    parameters = _get_parameters(item)
    function = suite.CASES[str(parameters.pop("case"))].function
    if path in SECOND_SERVERS or function.__module__ not in {family.__name__ for family in SMOKE_FAMILIES}:
        return False
    if path.startswith("tests/contract/"):
        return True  # its servers start in milliseconds
    server = repr(sorted(parameters.items(), key=str))
    return item.config.stash.setdefault(SERVERS, {}).setdefault(path, server) == server
