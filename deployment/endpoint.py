"""Close a stack's address of API Gateway beside its own domain: `python -m deployment.endpoint STACK [REGION]`.

The property DisableExecuteApiEndpoint is not for the API that SAM makes of the routes, and CloudFormation writes the
API anew when a route changes, so each deployment does this again. Without an own domain, the address is opened.
"""

from __future__ import annotations

import sys
from typing import Any

import botocore.session

DOMAIN, API = "DomainName", "ApiId"  # a parameter and an output of the template


def set_endpoint(formation: Any, gateway: Any, stack: str) -> bool:
    """Close the address if the stack has its own domain, otherwise open it. Return True if it is closed now."""
    (description,) = formation.describe_stacks(StackName=stack)["Stacks"]
    parameters = {row["ParameterKey"]: row["ParameterValue"] for row in description.get("Parameters", ())}
    outputs = {row["OutputKey"]: row["OutputValue"] for row in description["Outputs"]}
    is_closed = bool(parameters.get(DOMAIN))
    api = gateway.get_api(ApiId=outputs[API])
    if api.get("DisableExecuteApiEndpoint", False) != is_closed:
        gateway.update_api(ApiId=outputs[API], DisableExecuteApiEndpoint=is_closed)
    return is_closed


def main(stack: str, region: str = "") -> int:
    """Close or open the address of a stack."""
    session = botocore.session.get_session()
    formation, gateway = (session.create_client(name, region or None) for name in ("cloudformation", "apigatewayv2"))
    if set_endpoint(formation, gateway, stack):
        print("the address of API Gateway is closed: the service answers at its own domain")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
