"""Failures of share links."""

from __future__ import annotations

from mangrove.core.problems import Problem, TooLarge


class ShareNotFound(Problem):
    """There is no share link with this id."""

    text = "the share does not exist"


class ShareEnded(Problem):
    """A share link that is disabled or expired, or whose owner may not share the files any more."""

    text = "the share has expired or is no longer valid"


class ShareLimitReached(TooLarge):
    """A share link does not accept a file of this size or kind, or any more files."""
