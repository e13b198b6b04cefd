"""Fixtures of the tests of single sign-on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.identity_provider import IdentityProvider, run_identity_provider


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with run_identity_provider() as provider:
        yield provider
