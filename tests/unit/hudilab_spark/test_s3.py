"""Where S3 is, and what a session is told of it; no server."""

from __future__ import annotations

from dataclasses import replace

import pytest
from botocore.exceptions import (
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
)
from botocore.parsers import ResponseParserError
from cases import read_cases

from hudilab.errors import S3Error
from hudilab.settings import load_settings
from hudilab_spark.conf import needed
from hudilab_spark.s3 import _elsewhere, _unreached, endpoint, spark_settings, storage_options

CASES = read_cases(__file__)

NAMES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
LOCAL = load_settings(env={})
REMOTE = replace(LOCAL, is_local=False, aws_region="eu-west-1")


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("service", "all_services", "url"),
    CASES["endpoints"],
)
def test_the_service_s_own_name_stands_above_the_general_one(
    service: str, all_services: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip(NAMES, (service, all_services), strict=True):
        monkeypatch.setenv(name, value)
    assert endpoint() == url


@pytest.mark.parametrize(
    "value", ["127.0.0.1:9000", "s3://bucket", "http://", "http://user:secret@host", "http://a/b"]
)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_endpoint_is_refused_and_not_repeated(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(S3Error) as caught:
        endpoint()
    assert str(caught.value) == (
        f"{name} is not http(s)://host[:port]; fix it, or unset it to use Amazon S3"
    )


def test_amazon_s_own_s3_is_told_its_region_only() -> None:
    assert spark_settings(REMOTE) == {"spark.hadoop.fs.s3a.endpoint.region": "eu-west-1"}


def test_a_server_of_one_s_own_is_told_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://s3.example.org")
    assert spark_settings(REMOTE) == {
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.endpoint": "https://s3.example.org",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "true",
    }


def test_jars_for_s3_only_where_the_warehouse_is_there() -> None:
    assert needed(LOCAL, ("core", "kafka")) == ["core", "kafka"]
    assert needed(REMOTE, ("core", "kafka")) == ["core", "kafka", "s3"]
    assert needed(REMOTE, ("core", "s3")) == ["core", "s3"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            SSLError(endpoint_url="https://s", error="CERTIFICATE_VERIFY_FAILED"),
            "the server's certificate is not trusted; set AWS_CA_BUNDLE to the PEM file of its CA",
        ),
        (
            SSLError(endpoint_url="https://s", error="WRONG_VERSION_NUMBER"),
            "the server does not use TLS; write http:// instead of https:// in AWS_ENDPOINT_URL_S3",
        ),
        *(
            (
                silent,
                f"the server does not answer ({type(silent).__name__}); start it (on this machine: "
                "hudilab services start s3), or fix AWS_ENDPOINT_URL_S3",
            )
            for silent in (
                EndpointConnectionError(endpoint_url="http://s"),
                ConnectTimeoutError(endpoint_url="http://s"),
                ReadTimeoutError(endpoint_url="http://s"),
            )
        ),
        (
            ResponseParserError("<html>"),
            "the server is not an S3 server (ResponseParserError); fix AWS_ENDPOINT_URL_S3",
        ),
    ],
)
def test_a_server_that_is_not_what_it_should_be(error: Exception, text: str) -> None:
    assert "; ".join(_unreached(error)) == text


def test_a_bucket_elsewhere() -> None:
    assert _elsewhere("", "us-east-1") == (
        "the bucket is in another region, but aws.region is us-east-1",
        "fix aws.region in application_properties.json",
    )


def test_a_warehouse_on_this_disk_needs_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert storage_options(load_settings(env={})) == {}
