"""A warehouse on S3: the endpoint, the options of clients, and the diagnosis of errors."""

from __future__ import annotations

import os
import re
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from hudilab.errors import S3Error
from hudilab.settings import Settings

PROBE = "_hudilab_preflight"  # engines ignore names that start with '_'
# The preflight must succeed or fail within seconds; the stream itself retries for minutes.
_HASTE = {"connect_timeout": 2, "read_timeout": 3, "retries": {"total_max_attempts": 2}}
_REGION = (
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
)
_MAY = {"list": "s3:ListBucket", "write": "s3:PutObject", "delete": "s3:DeleteObject"}
# Credential sources of boto3 and of Spark's client, the AWS SDK for Java 1. The SDK reads a single
# file: ~/.aws/config if there is no ~/.aws/credentials.
_SHARED = ("env", "iam-role", "container-role", "assume-role-with-web-identity")
_OF_A_FILE = ("shared-credentials-file", "config-file", "custom-process", "assume-role")
_EXPORT = 'eval "$(aws configure export-credentials --format env)"'
CHAIN = "AWS_PROFILE and AWS_SHARED_CREDENTIALS_FILE, or AWS_ACCESS_KEY_ID and its secret"


def endpoint() -> str:
    """Return AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL; empty for Amazon S3.

    Raises:
        S3Error: the value is not http(s)://host[:port].
    """
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        if value := os.environ.get(name, "").strip():
            if re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?/?", value):
                return value.rstrip("/")
            raise S3Error(
                f"{name} is not http(s)://host[:port]", "fix it, or unset it to use Amazon S3"
            )
    return ""


def spark_settings(settings: Settings) -> dict[str, str]:
    """Return Spark's S3 endpoint and region settings; conf/spark-defaults.conf has the others."""
    options = {"endpoint.region": settings.aws_region}
    if url := endpoint():
        tls = str(url.startswith("https://")).lower()
        # Self-hosted servers rarely have a host name per bucket.
        options |= {"endpoint": url, "path.style.access": "true", "connection.ssl.enabled": tls}
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in options.items()}


def storage_options(settings: Settings) -> dict[str, str]:
    """Return the options of hudi-rs to read the warehouse; empty for a warehouse on a disk.

    They contain the keys from AWS's chain, because hudi-rs reads no profile: environment, profile,
    files, roles of a container or a machine. Don't print them.

    Raises:
        S3Error: the chain has no credentials.
    """
    if settings.is_local:
        return {}
    import boto3

    keys = boto3.Session().get_credentials()
    if keys is None:
        raise S3Error("no S3 credentials found", f"set {CHAIN}")
    frozen = keys.get_frozen_credentials()
    options = {
        "aws_access_key_id": frozen.access_key,
        "aws_secret_access_key": frozen.secret_key,
        "aws_session_token": frozen.token,
        "aws_region": settings.aws_region,
        "aws_endpoint_url": endpoint(),
        "aws_allow_http": "true" if endpoint().startswith("http://") else "",
    }
    return {name: value for name, value in options.items() if value}


def check_warehouse(uri: str, settings: Settings) -> None:
    """List, write and delete under an s3a:// warehouse as a table would, within seconds.

    Raises:
        S3Error: a step failed, or only Python's client can find the credentials; the message
            contains no key.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    bucket, _, prefix = uri.removeprefix("s3a://").partition("/")
    url, region, step = endpoint(), settings.aws_region, "list"
    where = f"bucket {bucket!r} at {url or f'Amazon S3, {region}'}"
    config = Config(
        **_HASTE,
        s3={"addressing_style": "path" if url else "auto"},
        request_checksum_calculation="when_required",  # other S3 servers lack newer checksums
    )
    try:
        session = boto3.Session()
        if why := _unknown_to_spark(session.get_credentials()):
            raise S3Error(f"{where}: {why}", f"run this in the shell, then start again: {_EXPORT}")
        client: Any = session.client(
            "s3", region_name=region, endpoint_url=url or None, config=config
        )
        here = client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
        _same_region(here, region, where)
        key = {"Bucket": bucket, "Key": f"{prefix}/{PROBE}".lstrip("/")}
        step = "write"
        client.put_object(**key, Body=b"")
        step = "delete"
        client.delete_object(**key)
    except ClientError as error:
        problem, remedy = _refused(error.response, step, region)
        raise S3Error(f"{where}: {problem}", remedy) from None
    except (BotoCoreError, ResponseParserError) as error:
        problem, remedy = _unreached(error)
        raise S3Error(f"{where}: {problem}", remedy) from None


def _unknown_to_spark(keys: Any) -> str:
    """Return the reason why Spark's client cannot find the keys of Python's client, or ""."""
    if keys is None or keys.method in _SHARED:
        return ""
    if keys.method not in _OF_A_FILE:
        return (
            f"Python's client gets its keys from {keys.method!r}, which Spark's client does not "
            "support"
        )
    from botocore.configloader import raw_config_parse

    named, home = os.environ.get("AWS_SHARED_CREDENTIALS_FILE"), Path("~/.aws").expanduser()
    file = Path(named).expanduser() if named else home / "credentials"
    if not named and not file.is_file():
        file = home / "config"
    profile = os.environ.get("AWS_PROFILE", "default")
    sections = raw_config_parse(str(file)) if file.is_file() else {}
    if profile in sections or f"profile {profile}" in sections:
        return ""
    return f"profile {profile!r} is not in {file}, and Spark's client reads no other file"


def _same_region(answer: Any, region: str, where: str) -> None:
    """Raise S3Error for another region, because only Python's client follows a redirect."""
    actual = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", region)
    if actual != region:
        problem, remedy = _elsewhere(actual, region)
        raise S3Error(f"{where}: {problem}", remedy)


def _elsewhere(actual: str, region: str) -> tuple[str, str]:
    whereabouts = f"the bucket is in {actual}" if actual else "the bucket is in another region"
    return (
        f"{whereabouts}, but aws.region is {region}",
        "fix aws.region in application_properties.json",
    )


def _refused(answer: Any, step: str, region: str) -> tuple[str, str]:
    """Explain an error returned by S3 without its own message, which may contain keys."""
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    code = str(answer["Error"].get("Code") or answer["ResponseMetadata"]["HTTPStatusCode"])
    if code in (*_REGION, "301"):
        actual = answer["Error"].get("Region") or headers.get("x-amz-bucket-region", "")
        return _elsewhere(actual, region)
    if code == "NoSuchBucket":
        return "the bucket does not exist", "create it, or fix warehouse.path"
    if code == "InvalidAccessKeyId":
        return "the access key is unknown", f"fix {CHAIN}"
    if code == "SignatureDoesNotMatch":
        return "the secret key does not match the access key", f"fix {CHAIN}"
    if code in ("ExpiredToken", "InvalidToken", "TokenRefreshRequired"):
        return f"the session token is invalid or has expired ({code})", "sign in again"
    if code == "RequestTimeTooSkewed":
        return f"this machine's clock is wrong{_skew(headers)}", "set it, then try again"
    if code in ("AccessDenied", "403"):
        return f"the key is not allowed to {step} ({code})", f"grant it {_MAY[step]}"
    if step == "list" or code in ("500", "503", "InternalError", "ServiceUnavailable", "SlowDown"):
        return (
            f"the server failed to {step} ({code})",
            "try again, or fix AWS_ENDPOINT_URL_S3 if it is not S3",
        )
    remedy = f"grant {_MAY[step]}, or use another warehouse.path"
    return f"the server refused to {step} ({code})", remedy


def _skew(headers: Any) -> str:
    from datetime import UTC, datetime

    if "date" not in headers:
        return ""
    seconds = (datetime.now(UTC) - parsedate_to_datetime(headers["date"])).total_seconds()
    return f", {abs(seconds):.0f} s {'ahead' if seconds > 0 else 'behind'}"


def _unreached(error: Exception) -> tuple[str, str]:
    """Explain an error raised by the client, by class name."""
    kind, text = type(error).__name__, str(error)
    if kind == "ProfileNotFound":
        file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
        profile = os.environ.get("AWS_PROFILE", "default")
        return f"no profile {profile!r} in {file}", "fix AWS_PROFILE or AWS_SHARED_CREDENTIALS_FILE"
    if "Credential" in kind:
        return "credentials are missing or incomplete", f"set {CHAIN}"
    if kind == "SSLError" and "CERTIFICATE_VERIFY_FAILED" in text:
        return (
            "the server's certificate is not trusted",
            "set AWS_CA_BUNDLE to the PEM file of its CA",
        )
    if kind == "SSLError":
        return (
            "the server does not use TLS",
            "write http:// instead of https:// in AWS_ENDPOINT_URL_S3",
        )
    if kind in ("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError"):
        return (
            f"the server does not answer ({kind})",
            "start it (on this machine: hudilab services start s3), or fix AWS_ENDPOINT_URL_S3",
        )
    return f"the server is not an S3 server ({kind})", "fix AWS_ENDPOINT_URL_S3"
