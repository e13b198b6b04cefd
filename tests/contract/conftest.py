"""The scene that the attack tests share: a user in a folder of his own among neighbours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.attacks import Scene
from tests.service import Client, Service


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
