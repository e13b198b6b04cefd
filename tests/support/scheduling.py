"""The distribution of tests over the workers of xdist."""

from __future__ import annotations

from xdist.scheduler import LoadGroupScheduling


class ModuleScheduling(LoadGroupScheduling):
    """Runs the tests of a module, or of a group of modules, in one worker, so that their fixtures are made once."""

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else scope
