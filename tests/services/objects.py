"""The objects of the lab's S3 server, asked as its user."""

from __future__ import annotations

from configparser import ConfigParser
from typing import Any

import boto3
from botocore.config import Config

from hudilab_cli.servers.s3 import S3Server


def keys(server: S3Server) -> tuple[str, str]:
    """Return the access key and its secret."""
    parser = ConfigParser()
    parser.read(server.credentials)
    section = parser["hudilab"]
    return section["aws_access_key_id"], section["aws_secret_access_key"]


def client(server: S3Server) -> Any:
    access, secret = keys(server)
    return boto3.Session().client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}),
    )
