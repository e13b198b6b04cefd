"""The refusals of uploads that existing clients expect in words of their own."""

from __future__ import annotations

from mangrove.core.problems import BadRequest, EntryExists


class FormNotMounted(BadRequest):
    """No storage is mounted at the path of a form upload, or above it."""


class FileInPath(EntryExists):
    """The path of a required folder is taken by a file."""
