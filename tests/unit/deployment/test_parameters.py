"""The parameters of a deployment cover what a function is made of and what it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployment.parameters import find_architecture, make_parameters, read_stack
from mangrove.standalone import template
from tests import servers

X86_64, ARM64 = 62, 183
PRESENT = {"Stage": "prod", "DomainName": "files.example.org", "Release": "old", "Architecture": "x86_64"}


def make_library(folder: Path, machine: int) -> Path:
    library = folder / f"{machine}.so"
    library.write_bytes(b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little") + bytes(40))
    return library


@pytest.mark.parametrize(("machine", "name"), [(X86_64, "x86_64"), (ARM64, "arm64")])
def test_architecture_of_libraries_is_in_their_headers(tmp_path: Path, machine: int, name: str) -> None:
    (tmp_path / "script.so").write_text("INPUT(-lc)")
    assert find_architecture([make_library(tmp_path, machine), tmp_path / "script.so"]) == name


@pytest.mark.parametrize("machines", [(), (X86_64, ARM64), (8,)])
def test_architecture_mixed_or_unknown_is_refused(tmp_path: Path, machines: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="the compiled libraries are for"):
        find_architecture([make_library(tmp_path, machine) for machine in machines])


def test_release_differs_with_each_parameter() -> None:
    """The versions of functions are named after the release (`tests/contract/test_stack.py`)."""
    names = template.load_template()["Parameters"].keys() - {"Release", "Architecture"}
    changes: list[dict[str, str]] = [{}, *({name: "another value"} for name in sorted(names))]
    releases = [make_parameters(changed, PRESENT, "build", "x86_64")["Release"] for changed in changes]
    releases.append(make_parameters({}, PRESENT, "build", "arm64")["Release"])
    assert len(set(releases)) == len(changes) + 1 > 20
    assert make_parameters({}, PRESENT, "other", "x86_64")["Release"] not in releases


def test_release_of_values_that_the_stack_has_is_the_same() -> None:
    again = make_parameters({"Stage": "prod"}, {**PRESENT, "Release": "new"}, "build", "x86_64")
    assert again["Release"] == make_parameters({}, PRESENT, "build", "x86_64")["Release"]


def test_architecture_that_was_built_is_always_passed() -> None:
    assert make_parameters({}, PRESENT, "build", "arm64")["Architecture"] == "arm64"
    with pytest.raises(ValueError, match="the build is for x86_64: build with PARAMETERS=Architecture=arm64"):
        make_parameters({"Architecture": "arm64"}, {}, "build", "x86_64")


def test_read_stack_returns_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}.items():
        monkeypatch.setenv(name, value)
    with servers.moto_s3() as endpoint:  # moto serves all services
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert read_stack("none", "us-east-1") == {}
        text = '{"Parameters": {"Stage": {"Type": "String"}}, "Resources": {"T": {"Type": "AWS::SNS::Topic"}}}'
        servers.make_client("cloudformation", endpoint).create_stack(
            StackName="files", TemplateBody=text, Parameters=[{"ParameterKey": "Stage", "ParameterValue": "dev"}]
        )
        assert read_stack("files", "us-east-1") == {"Stage": "dev"}
