"""The rights that `make deploy` needs: an IAM policy document, from the types of the template's resources."""

from __future__ import annotations

import json
from dataclasses import dataclass

from deployment.generate import Files
from mangrove.standalone import template

FILE = "deployment/deployer-policy.json"
CLOUDFRONT_KINDS = (
    "CachePolicy", "Distribution", "KeyGroup", "OriginAccessControl", "PublicKey", "ResponseHeadersPolicy",
)  # fmt: skip
STACK = "STACK"  # replaced by the name of the stack before the document is used


@dataclass(frozen=True, slots=True)
class DeployerRight:
    """The rights to create, change and remove the resources of some types."""

    types: tuple[str, ...]
    """The types that need them; none for the deployment itself."""
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    """ARNs; `*` where the service names its resources itself or has none."""


RIGHTS = (
    DeployerRight(
        (),
        (
            "cloudformation:CreateChangeSet", "cloudformation:CreateStack", "cloudformation:DeleteChangeSet",
            "cloudformation:DeleteStack", "cloudformation:DescribeChangeSet", "cloudformation:DescribeEvents",
            "cloudformation:DescribeStackEvents", "cloudformation:DescribeStacks", "cloudformation:ExecuteChangeSet",
            "cloudformation:GetTemplate", "cloudformation:GetTemplateSummary", "cloudformation:ListStackResources",
            "cloudformation:UpdateStack",
        ),
        (
            f"arn:aws:cloudformation:*:*:stack/{STACK}/*",
            "arn:aws:cloudformation:*:*:stack/aws-sam-cli-managed-default/*",
            "arn:aws:cloudformation:*:aws:transform/Serverless-2016-10-31",
        ),
    ),
    DeployerRight(
        (),
        (
            "s3:CreateBucket", "s3:GetBucketLocation", "s3:GetObject", "s3:ListBucket", "s3:PutBucketPolicy",
            "s3:PutBucketTagging", "s3:PutBucketVersioning", "s3:PutEncryptionConfiguration",
            "s3:PutBucketPublicAccessBlock", "s3:PutObject",
        ),
        ("arn:aws:s3:::aws-sam-cli-managed-default-*",),
    ),
    DeployerRight(
        ("AWS::Serverless::Function", "AWS::Lambda::Permission", "AWS::Lambda::Url", "Custom::MangroveSetup"),
        (
            "lambda:AddPermission", "lambda:CreateAlias", "lambda:CreateFunction", "lambda:CreateFunctionUrlConfig",
            "lambda:DeleteAlias", "lambda:DeleteFunctionUrlConfig", "lambda:GetFunctionUrlConfig",
            "lambda:UpdateFunctionUrlConfig",
            "lambda:DeleteFunction", "lambda:DeleteFunctionConcurrency", "lambda:GetAlias", "lambda:GetFunction",
            "lambda:GetFunctionConfiguration", "lambda:InvokeFunction", "lambda:ListAliases", "lambda:ListTags",
            "lambda:ListVersionsByFunction", "lambda:PublishVersion", "lambda:PutFunctionConcurrency",
            "lambda:PutFunctionEventInvokeConfig", "lambda:DeleteFunctionEventInvokeConfig",
            "lambda:GetFunctionEventInvokeConfig", "lambda:RemovePermission", "lambda:TagResource",
            "lambda:UntagResource", "lambda:UpdateAlias", "lambda:UpdateFunctionCode",
            "lambda:UpdateFunctionConfiguration",
        ),
        (f"arn:aws:lambda:*:*:function:{STACK}-*",),
    ),
    DeployerRight(
        ("AWS::Serverless::LayerVersion",),
        ("lambda:DeleteLayerVersion", "lambda:GetLayerVersion", "lambda:PublishLayerVersion"),
        (f"arn:aws:lambda:*:*:layer:{STACK}-*",),
    ),
    DeployerRight(
        ("AWS::IAM::ManagedPolicy", "AWS::IAM::Policy", "AWS::IAM::Role"),
        (
            "iam:AttachRolePolicy", "iam:CreatePolicy", "iam:CreatePolicyVersion", "iam:CreateRole", "iam:DeletePolicy",
            "iam:DeletePolicyVersion", "iam:DeleteRole", "iam:DeleteRolePolicy", "iam:DetachRolePolicy",
            "iam:GetPolicy", "iam:GetPolicyVersion", "iam:GetRole", "iam:GetRolePolicy", "iam:ListAttachedRolePolicies",
            "iam:ListPolicyVersions", "iam:ListRolePolicies", "iam:PassRole", "iam:PutRolePolicy", "iam:TagRole",
            "iam:UntagRole", "iam:UpdateAssumeRolePolicy",
        ),
        (f"arn:aws:iam::*:role/{STACK}-*", f"arn:aws:iam::*:policy/{STACK}-*"),
    ),
    DeployerRight(
        ("AWS::Serverless::StateMachine",),
        (
            "states:CreateStateMachine", "states:DeleteStateMachine", "states:DescribeStateMachine",
            "states:ListStateMachineVersions", "states:ListTagsForResource", "states:TagResource",
            "states:UntagResource", "states:UpdateStateMachine",
        ),
        ("arn:aws:states:*:*:stateMachine:*",),
    ),
    DeployerRight(
        ("AWS::ApiGatewayV2::ApiMapping", "AWS::ApiGatewayV2::DomainName"),
        (
            "apigateway:DELETE", "apigateway:GET", "apigateway:PATCH", "apigateway:POST", "apigateway:PUT",
            "apigateway:TagResource",
        ),
        (
            "arn:aws:apigateway:*::/apis", "arn:aws:apigateway:*::/apis/*", "arn:aws:apigateway:*::/domainnames",
            "arn:aws:apigateway:*::/domainnames/*", "arn:aws:apigateway:*::/tags/*",
        ),
    ),
    DeployerRight(
        tuple(f"AWS::CloudFront::{kind}" for kind in CLOUDFRONT_KINDS),
        (
            *(
                f"cloudfront:{verb}{kind}"
                for verb in ("Create", "Delete", "Get", "Update")
                for kind in CLOUDFRONT_KINDS
            ),
            "cloudfront:ListTagsForResource", "cloudfront:TagResource", "cloudfront:UntagResource",
        ),
        ("*",),
    ),
    DeployerRight(
        ("AWS::DynamoDB::Table",),
        (
            "dynamodb:CreateTable", "dynamodb:DeleteTable", "dynamodb:DescribeContinuousBackups",
            "dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive", "dynamodb:ListTagsOfResource",
            "dynamodb:TagResource", "dynamodb:UntagResource", "dynamodb:UpdateContinuousBackups",
            "dynamodb:UpdateTable", "dynamodb:UpdateTimeToLive",
        ),
        (f"arn:aws:dynamodb:*:*:table/{STACK}-*",),
    ),
    DeployerRight(
        ("AWS::S3::Bucket", "AWS::S3::BucketPolicy"),
        (
            "s3:CreateBucket", "s3:DeleteBucket", "s3:DeleteBucketPolicy", "s3:GetBucketPolicy",
            "s3:GetBucketVersioning", "s3:GetLifecycleConfiguration", "s3:PutBucketCORS", "s3:PutBucketPolicy",
            "s3:GetBucketNotification", "s3:PutBucketNotification", "s3:PutBucketPublicAccessBlock",
            "s3:PutBucketTagging", "s3:PutBucketVersioning", "s3:PutLifecycleConfiguration",
        ),
        (f"arn:aws:s3:::{STACK.lower()}-*",),
    ),
    DeployerRight(
        ("AWS::SecretsManager::Secret",),
        (
            "secretsmanager:CreateSecret", "secretsmanager:DeleteSecret", "secretsmanager:DescribeSecret",
            "secretsmanager:PutSecretValue", "secretsmanager:TagResource", "secretsmanager:UpdateSecret",
        ),
        ("arn:aws:secretsmanager:*:*:secret:*",),
    ),
    DeployerRight((), ("secretsmanager:GetRandomPassword",), ("*",)),
    DeployerRight(
        ("AWS::Logs::LogGroup",),
        (
            "logs:CreateLogGroup", "logs:DeleteLogGroup", "logs:DeleteRetentionPolicy", "logs:PutRetentionPolicy",
            "logs:TagResource", "logs:UntagResource",
        ),
        (f"arn:aws:logs:*:*:log-group:{STACK}-*", f"arn:aws:logs:*:*:log-group:/aws/vendedlogs/*/{STACK}"),
    ),
    DeployerRight(
        (),
        (
            "logs:CreateLogDelivery", "logs:DeleteLogDelivery", "logs:DescribeLogGroups",
            "logs:DescribeResourcePolicies", "logs:GetLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy",
            "logs:UpdateLogDelivery",
        ),
        ("*",),
    ),
    DeployerRight(
        ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard"),
        (
            "cloudwatch:DeleteAlarms", "cloudwatch:DeleteDashboards", "cloudwatch:DescribeAlarms",
            "cloudwatch:GetDashboard", "cloudwatch:PutDashboard", "cloudwatch:PutMetricAlarm",
        ),
        (f"arn:aws:cloudwatch:*:*:alarm:{STACK}-*", "arn:aws:cloudwatch::*:dashboard/*"),
    ),
    DeployerRight(
        ("AWS::SNS::Topic",),
        (
            "sns:CreateTopic", "sns:DeleteTopic", "sns:GetTopicAttributes", "sns:ListSubscriptionsByTopic",
            "sns:SetTopicAttributes", "sns:Subscribe", "sns:Unsubscribe",
        ),
        (f"arn:aws:sns:*:*:{STACK}-*",),
    ),
    DeployerRight(
        ("AWS::SQS::Queue", "AWS::SQS::QueuePolicy"),
        ("sqs:CreateQueue", "sqs:DeleteQueue", "sqs:GetQueueAttributes", "sqs:SetQueueAttributes"),
        (f"arn:aws:sqs:*:*:{STACK}-*",),
    ),
    DeployerRight(
        ("AWS::Scheduler::Schedule",),
        ("scheduler:CreateSchedule", "scheduler:DeleteSchedule", "scheduler:GetSchedule", "scheduler:UpdateSchedule"),
        (f"arn:aws:scheduler:*:*:schedule/default/{STACK}-*",),
    ),
    DeployerRight(
        ("AWS::Lambda::EventSourceMapping",),
        (
            "lambda:CreateEventSourceMapping", "lambda:DeleteEventSourceMapping", "lambda:GetEventSourceMapping",
            "lambda:ListTags", "lambda:TagResource", "lambda:UntagResource", "lambda:UpdateEventSourceMapping",
        ),
        ("arn:aws:lambda:*:*:event-source-mapping:*",),
    ),
    DeployerRight(
        ("AWS::Events::EventBus",),
        (
            "events:CreateEventBus", "events:DeleteEventBus", "events:DescribeEventBus", "events:ListTagsForResource",
            "events:TagResource", "events:UntagResource",
        ),
        (f"arn:aws:events:*:*:event-bus/{STACK}",),
    ),
    DeployerRight(
        ("AWS::Events::Rule",),
        (
            "events:DeleteRule", "events:DescribeRule", "events:ListTargetsByRule", "events:PutRule",
            "events:PutTargets", "events:RemoveTargets",
        ),
        (f"arn:aws:events:*:*:rule/{STACK}-*",),
    ),
    DeployerRight(
        ("AWS::Budgets::Budget",),
        ("budgets:ModifyBudget", "budgets:ViewBudget"),
        ("arn:aws:budgets::*:budget/*",),
    ),
    DeployerRight(
        ("AWS::Transfer::Server",),
        (
            "transfer:CreateServer", "transfer:DeleteServer", "transfer:DescribeServer", "transfer:TagResource",
            "transfer:UpdateServer",
        ),
        ("arn:aws:transfer:*:*:server/*",),
    ),
    DeployerRight(
        ("AWS::CodeDeploy::DeploymentGroup",),
        (
            "codedeploy:CreateApplication", "codedeploy:CreateDeployment", "codedeploy:CreateDeploymentGroup",
            "codedeploy:DeleteApplication", "codedeploy:DeleteDeploymentGroup", "codedeploy:GetDeployment",
            "codedeploy:GetDeploymentConfig", "codedeploy:GetDeploymentGroup",
            "codedeploy:RegisterApplicationRevision", "codedeploy:UpdateDeploymentGroup",
        ),
        (
            f"arn:aws:codedeploy:*:*:application:{STACK}-*", f"arn:aws:codedeploy:*:*:deploymentgroup:{STACK}-*/*",
            "arn:aws:codedeploy:*:*:deploymentconfig:*",
        ),
    ),
)  # fmt: skip
IMPLIED_TYPES = {"AWS::Scheduler::Schedule", "AWS::CodeDeploy::DeploymentGroup"}  # SAM makes them from other resources


def list_types() -> set[str]:
    """Return the types of the template's resources, with those that SAM derives."""
    return {resource["Type"] for resource in template.load_template()["Resources"].values()} | IMPLIED_TYPES


def generate_policy() -> Files:
    """Derive the policy document. Raise ValueError if its rights and the types of the template differ."""
    known = {kind for right in RIGHTS for kind in right.types}
    if known != list_types():
        raise ValueError(f"rights and types of the template differ: {', '.join(sorted(known ^ list_types()))}")
    statements = [
        {"Effect": "Allow", "Action": list(right.actions), "Resource": list(right.resources)} for right in RIGHTS
    ]
    return {FILE: json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2) + "\n"}
