"""boto3 pointed at a gateway process."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config
from gateway_process import GatewayProcess


def boto3_client(process: GatewayProcess, **settings: Any) -> Any:
    """boto3 as its users have it, but without retries: they would hide faults."""
    settings = {"s3": {"addressing_style": "path"}, "retries": {"max_attempts": 0}} | settings
    return boto3.client(
        "s3",
        endpoint_url=process.endpoint,
        aws_access_key_id=process.access_key,
        aws_secret_access_key=process.secret_key,
        region_name="us-east-1",
        config=Config(**settings),
    )
