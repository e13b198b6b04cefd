"""Fixtures of several modules: a deployment, and the scene of the attacks: a user among neighbours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.attacks.scene import Scene
from tests.support import lambdas
from tests.support.service import Client, Service


@pytest.fixture(scope="session")
def cloud() -> Iterator[lambdas.Cloud]:
    """A deployment whose functions cache nothing. Each test uses names of its own."""
    with lambdas.deploy() as cloud:
        assert cloud.run_setup()["Status"] == "SUCCESS"
        yield cloud


@pytest.fixture(scope="module")
def scene(service: Service, admin: Client) -> Iterator[Scene]:
    scene = Scene(service, admin)
    yield scene
    scene.close()


@pytest.fixture
def fresh(scene: Scene) -> Scene:
    scene.settle()
    scene.reset()
    return scene
