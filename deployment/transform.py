"""Print the template as CloudFormation transforms it, as JSON: `python -m deployment.transform Name=value …`.

Runs where the SAM command is installed, without a network. Arguments are parameters.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


class NoPolicies:
    """Managed policies by their names: the template names none."""

    def load(self) -> dict[str, str]:
        """Their ARNs."""
        return {}


def transform(parameters: dict[str, str]) -> dict[str, Any]:
    """The template without its macros; InvalidSamDocumentException."""
    from samcli.lib.translate.sam_template_validator import SamTemplateValidator  # only where SAM is
    from samcli.yamlhelper import yaml_parse

    text = (Path(__file__).resolve().parent.parent / "template.yaml").read_text()
    translator = SamTemplateValidator(
        yaml_parse(text), NoPolicies(), region="us-east-1", parameter_overrides=parameters
    )
    return dict(yaml_parse(translator.get_translated_template_if_valid()))


if __name__ == "__main__":
    arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
    json.dump(transform(arguments), sys.stdout, default=str)
