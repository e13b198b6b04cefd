"""Print the template as CloudFormation transforms it, as JSON: `python -m deployment.transform Name=value …`.

It needs the SAM command and no network. Arguments are parameters.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


class NoPolicies:
    """The managed policies by name. The template does not use any."""

    def load(self) -> dict[str, str]:
        """Return the ARNs of the policies."""
        return {}


def transform(parameters: dict[str, str]) -> dict[str, Any]:
    """Return the template without its macros. Raise InvalidSamDocumentException."""
    from samcli.lib.translate.sam_template_validator import SamTemplateValidator  # installed only with the SAM command
    from samcli.yamlhelper import yaml_parse

    text = (Path(__file__).resolve().parent.parent / "template.yaml").read_text()
    translator = SamTemplateValidator(
        yaml_parse(text), NoPolicies(), region="us-east-1", parameter_overrides=parameters
    )
    return dict(yaml_parse(translator.get_translated_template_if_valid()))


if __name__ == "__main__":
    arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
    json.dump(transform(arguments), sys.stdout, default=str)
