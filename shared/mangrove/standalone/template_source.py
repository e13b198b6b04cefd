"""`template.yaml` as the deployment and the tests read it: with CloudFormation's short tags."""

from __future__ import annotations

from typing import Any

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

try:
    from yaml import CSafeLoader as SafeLoader  # reads the template in a tenth of the time
except (
    ImportError
):  # PyYAML without libyaml; both classes construct the same values, but have no common base of their own
    from yaml import SafeLoader  # type: ignore[assignment]


class TemplateLoader(SafeLoader):
    """A loader that reads CloudFormation's short tags: `!Ref x` as `{"Ref": "x"}`, `!Sub x` as `{"Fn::Sub": "x"}`."""


def _construct_short_tag(loader: SafeConstructor, tag: str, node: yaml.Node) -> dict[str, Any]:
    key = tag if tag in ("Ref", "Condition") else f"Fn::{tag}"
    if isinstance(node, yaml.ScalarNode):
        return {key: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {key: loader.construct_sequence(node, deep=True)}
    if isinstance(node, yaml.MappingNode):
        return {key: loader.construct_mapping(node, deep=True)}
    raise ConstructorError(None, None, f"the tag !{tag} has a value of an unknown kind", node.start_mark)


TemplateLoader.add_multi_constructor("!", _construct_short_tag)


def parse(text: str) -> dict[str, Any]:
    """Return a template."""
    return dict(yaml.load(text, TemplateLoader))  # noqa: S506 - a SafeLoader
