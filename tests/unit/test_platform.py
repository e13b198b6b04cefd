"""The platform follows the configuration; both implementations answer all that the protocol names."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import pytest

from mangrove.cloud.platform import CloudPlatform
from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.platform import Platform, platform
from mangrove.core.problems import Problem
from mangrove.standalone.platform import StandalonePlatform
from tests.support.platforms import use_cloud, use_standalone


@pytest.fixture(params=["cloud", "function", "standalone"])
def any_platform(request: pytest.FixtureRequest, tmp_path: Path) -> Platform:
    """Return the platform of each environment."""
    if request.param == "standalone":
        return use_standalone(tmp_path)
    return use_cloud(is_function=request.param == "function")


def test_platform_has_a_value_for_each_attribute(any_platform: Platform) -> None:
    missing = [name for name in get_type_hints(Platform) if not hasattr(any_platform, name)]
    assert missing == []
    assert any_platform is platform()


def test_data_directory_makes_the_platform_standalone(tmp_path: Path) -> None:
    assert isinstance(use_standalone(tmp_path), StandalonePlatform)
    assert isinstance(use_cloud(), CloudPlatform)
    runtime.put(Config, Config(data=tmp_path, is_function=True))
    assert isinstance(platform(), CloudPlatform), "a function has no data directory that lasts"


def test_own_storage_is_a_folder_or_the_named_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, options = use_standalone(tmp_path).describe_own_storage("staging", "BUCKET")
    assert (driver, options["root_folder_path"]) == ("Local", str(tmp_path / "staging"))
    assert (tmp_path / "staging").is_dir()
    cloud = use_cloud()
    with pytest.raises(Problem, match="there is no place for staging"):
        cloud.describe_own_storage("staging", "BUCKET")
    monkeypatch.setenv("BUCKET", "name")
    driver, options = cloud.describe_own_storage("staging", "BUCKET")
    assert (driver, options["bucket"]) == ("S3", "name")


def test_shared_folder_is_private_and_refused_in_the_cloud(tmp_path: Path) -> None:
    path = use_standalone(tmp_path).make_shared_folder("task", "files")
    assert path == tmp_path / "staging" / "task" / "files"
    assert path.stat().st_mode & 0o777 == 0o700
    with pytest.raises(Problem, match="no folder that this service shares"):
        use_cloud().make_shared_folder("task", "files")


def test_boot_id_is_constant_and_empty_in_the_cloud(tmp_path: Path) -> None:
    standalone = use_standalone(tmp_path)
    assert standalone.read_boot_id() == standalone.read_boot_id() != ""
    assert use_cloud().read_boot_id() == ""
