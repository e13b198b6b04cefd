"""The table of drivers and servers at the end of a run."""

from __future__ import annotations

from types import SimpleNamespace

from tests.support import driver_table


def make_report(driver: str, server: str, **more: object) -> SimpleNamespace:
    report = {"user_properties": [("driver", [driver, server])], "duration": 0.25, "when": "call", "longrepr": None}
    return SimpleNamespace(**report | more)


def test_it_counts_what_was_reported_of_each_driver_and_server() -> None:
    absent = ("test_it.py", 1, "Skipped: sshd is not installed")
    stats = {
        "passed": [make_report("FTP", "vsftpd"), make_report("FTP", "vsftpd"), SimpleNamespace(user_properties=[])],
        "failed": [make_report("FTP", "rclone")],
        "error": [make_report("FTP", "rclone", when="setup")],
        "skipped": [
            make_report("FTP", "vsftpd", longrepr=("test_it.py", 1, "Skipped: does not claim Parts")),
            make_report("SFTP", "OpenSSH", when="setup", longrepr=absent),
        ],
    }
    head, *rows = driver_table.make_lines(stats)
    assert head.split() == ["driver", "server", "passed", "failed", "skipped", "seconds"]
    assert [row.split(maxsplit=5) for row in rows] == [
        ["FTP", "rclone", "0", "2", "0", "0.5"],
        ["FTP", "vsftpd", "2", "0", "1", "0.8"],
        ["SFTP", "OpenSSH", "0", "0", "1", "0.2  sshd is not installed"],
    ]


def test_a_run_without_drivers_has_no_table() -> None:
    assert driver_table.make_lines({"passed": [SimpleNamespace(user_properties=[])], "warnings": [object()]}) == []
