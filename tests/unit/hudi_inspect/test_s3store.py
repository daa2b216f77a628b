"""Each fault of S3 has a line of its own, without the client's text."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ResponseStreamingError,
)
from unit.hudi_inspect.tables import refusal

import hudilab_spark.s3
from hudi_inspect.s3 import CHAIN, S3Store
from hudi_inspect.store import S3Access


def test_s3_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "canary-4711",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    assert refusal("s3://bucket/table") == (
        f"cannot read bucket 'bucket': the server does not answer; {START}, then try again: "
        "hudi-inspect TABLE"
    )


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "canary-4711"}}, "GetObject")


GRANT = f"access denied; grant s3:ListBucket and s3:GetObject, or fix {CHAIN}"
KEY = f"the server rejected the access key or its secret (InvalidAccessKeyId); fix {CHAIN}"
START = "start it (on this machine: hudilab services start s3), or fix AWS_ENDPOINT_URL_S3"
CHECK = f"check AWS_ENDPOINT_URL_S3 and {CHAIN}"
OTHER = {"error": "canary-4711"}


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (refused("NoSuchBucket"), "it does not exist; fix the URI"),
        (refused("AccessDenied"), GRANT),
        (NoCredentialsError(), GRANT),
        (refused("InvalidAccessKeyId"), KEY),
        (
            EndpointConnectionError(endpoint_url="http://canary-4711"),
            f"the server does not answer; {START}",
        ),
        (refused("SlowDown"), f"the request failed (SlowDown); {CHECK}"),
        (ResponseStreamingError(**OTHER), f"the request failed (no error code); {CHECK}"),
    ],
)
def test_what_s3_refuses(error: Exception, why: str) -> None:
    """The client's own text can hold keys and is not shown."""
    store = S3Store("s3://bucket/t", S3Access("http://127.0.0.1:9"))
    assert str(store._failed(error)) == (
        f"cannot read bucket 'bucket': {why}, then try again: hudi-inspect TABLE"
    )


def test_an_endpoint_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "nonsense")
    assert refusal("s3://bucket/table") == (
        "AWS_ENDPOINT_URL_S3 is not http(s)://host[:port]; fix it, or unset it to use Amazon S3"
    )


def test_what_hudi_rs_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "s", "REGION": "x"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "s", "aws_region": "x"}
    amazon = S3Store("s3://bucket/t", S3Access())
    assert amazon.storage_options() == keys
    other = S3Store("s3://bucket/t", S3Access("http://127.0.0.1:9"))
    server = {"aws_endpoint_url": "http://127.0.0.1:9", "aws_allow_http": "true"}
    assert other.storage_options() == keys | server


def test_it_names_the_same_variables_as_the_lab() -> None:
    assert CHAIN == hudilab_spark.s3.CHAIN
