"""Starts that are refused, each with one line."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mangrove.standalone.__main__ import main
from tests.e2e.processes import refuse_to_run
from tests.support.service import Client, Service


def test_a_second_server_on_the_same_data_names_the_process_that_has_it(service: Service, admin: Client) -> None:
    line = refuse_to_run("serve", "--port", "0", "--data", str(service.data))
    assert line == f"the data directory {service.data} is in use by process {service.process.pid} ({service.address})"
    assert admin.get("/api/me")["code"] == 200


@pytest.mark.parametrize("port", ["eighty", "65536", "-1", "٣"])
def test_a_port_that_is_none_is_refused(tmp_path: Path, port: str) -> None:
    assert refuse_to_run("serve", "--data", str(tmp_path / "data"), MANGROVE_PORT=port) == f"{port} is not a port"


def test_a_busy_port_is_refused(service: Service, tmp_path: Path) -> None:
    port = service.address.rpartition(":")[2]
    line = refuse_to_run("serve", "--port", port, "--data", str(tmp_path / "data"))
    assert line == f"cannot listen on 127.0.0.1:{port}: Address already in use"


def test_a_data_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for data, reason in (("file", "File exists"), ("file/data", "Not a directory")):
        line = refuse_to_run("serve", "--port", "0", "--data", str(tmp_path / data))
        assert line == f"cannot write to the data directory {tmp_path / data}: {reason}"
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    ("binary", "beginning"),
    [
        ("/nonexistent", "the records engine is missing (/nonexistent): run `npm ci`"),
        (__file__, "the records engine does not start: "),
        ("/bin/false", "the records engine ended right after its start, see "),
    ],
)
def test_an_engine_that_does_not_run_is_refused(tmp_path: Path, binary: str, beginning: str) -> None:
    line = refuse_to_run("serve", "--port", "0", "--data", str(tmp_path / "data"), DYNOXIDE_BIN=binary)
    assert line.startswith(beginning)


def test_another_records_engine_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    line = refuse_to_run("serve", "--port", "0", "--data", str(tmp_path / "data"), MANGROVE_DYNAMODB_ENDPOINT=endpoint)
    assert line.startswith(f"the records engine at {endpoint} is not usable: Could not connect")


@pytest.mark.parametrize(
    ("name", "text"),
    [("TOKEN_HOURS", "soon"), ("SNAPSHOT_SECONDS", "2 s"), ("TRUSTED_PROXIES", "10.0.0.1,proxy.example")],
)
def test_a_variable_that_is_not_usable_is_refused_by_name(tmp_path: Path, name: str, text: str) -> None:
    line = refuse_to_run("serve", "--port", "0", "--data", str(tmp_path / "data"), **{f"MANGROVE_{name}": text})
    assert line.startswith(f"MANGROVE_{name}: ")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("limit", ["0", "-1", "many", "1e3"])
@pytest.mark.parametrize("option", ["--max-connections", "--max-connections-per-address"])
def test_a_limit_of_connections_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], option: str, limit: str
) -> None:
    with pytest.raises(SystemExit):
        main(["serve", f"{option}={limit}"])
    assert f"argument {option}: '{limit}' is not a number above 0" in capsys.readouterr().err
