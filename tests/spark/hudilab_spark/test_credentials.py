"""The preflight's answer about credentials, held to the AWS SDK that Spark's client really uses."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from hudilab.errors import S3Error
from hudilab.settings import load_settings
from hudilab_spark.conf import older_names
from hudilab_spark.environment import file_names
from hudilab_spark.jars import verify
from hudilab_spark.java import find_java
from hudilab_spark.s3 import check_warehouse

KEYS = "aws_access_key_id = AKIATEST\naws_secret_access_key = HIDDEN\n"
PROCESS = (
    """credential_process = /bin/echo '{"Version":1,"AccessKeyId":"AKIATEST","""
    """"SecretAccessKey":"HIDDEN"}'\n"""
)
SSO = "sso_start_url = https://x\nsso_region = us-east-1\nsso_account_id = 1\nsso_role_name = r\n"
OTHER = f"[other]\n{KEYS}"
X = {"AWS_PROFILE": "x"}
ENV = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "HIDDEN"}
REMEDY = (
    "; run this in the shell, then start again: "
    'eval "$(aws configure export-credentials --format env)"'
)
# ~/.aws/credentials, ~/.aws/config, the environment; and what is wrong, or empty.
CASES = {
    "keys": (f"[default]\n{KEYS}", "", {}, ""),
    "keys of a profile": (f"[x]\n{KEYS}", "[profile x]\nregion = us-east-1\n", X, ""),
    "keys in config alone": ("", f"[profile x]\n{KEYS}", X, ""),
    "keys in config beside credentials": (OTHER, f"[profile x]\n{KEYS}", X, "file"),
    "process": (f"[default]\n{PROCESS}", "", {}, ""),
    "process in config alone": ("", f"[profile x]\n{PROCESS}", X, ""),
    "process in config beside credentials": (OTHER, f"[profile x]\n{PROCESS}", X, "file"),
    "sso": ("", f"[profile x]\n{SSO}", X, "sso"),
    "environment over sso": ("", f"[profile x]\n{SSO}", X | ENV, ""),
    "a file of another name": ("", "", {"AWS_SHARED_CREDENTIALS_FILE": "{home}/mine"}, ""),
    "config beside a file of another name": (
        *("", f"[profile x]\n{PROCESS}"),
        {"AWS_SHARED_CREDENTIALS_FILE": "{home}/mine", **X},
        "file",
    ),
}


# Each case starts its own JVM, so only one that is found and one that is refused run every day.
DAILY = ("keys", "process in config beside credentials")
PARAMS = [pytest.param(case, marks=[] if case in DAILY else pytest.mark.deep) for case in CASES]


@pytest.fixture(params=PARAMS)
def case(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, str]:
    """A home with one case's files, and an environment with its variables; what is wrong."""
    credentials, config, env, wrong = CASES[request.param]
    (tmp_path / ".aws").mkdir()
    (tmp_path / "mine").write_text(f"[default]\n{KEYS}")
    for name, text in (("credentials", credentials), ("config", config)):
        if text:
            (tmp_path / ".aws" / name).write_text(text)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    env = {name: value.format(home=tmp_path) for name, value in env.items()}
    env |= {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    env |= {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return tmp_path, wrong


def java_finds_keys(home: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the chain that conf/spark-defaults.conf names finds keys, in a JVM of its own."""
    for name, value in (older_names() | file_names()).items():
        monkeypatch.setenv(name, value)
    jars = verify(load_settings(env={}).project / "jars", ["s3"])
    port, process = launch_gateway(
        classpath=os.pathsep.join([*map(str, jars), f"{Path(pyspark.__file__).parent}/jars/*"]),
        java_path=str(find_java().home / "bin" / "java"),
        javaopts=[f"-Duser.home={home}"],
        die_on_exit=True,
        redirect_stdout=subprocess.DEVNULL,
        redirect_stderr=subprocess.DEVNULL,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        chain = gateway.jvm.com.amazonaws.auth.DefaultAWSCredentialsProviderChain()
        return str(chain.getCredentials().getAWSAccessKeyId()) == "AKIATEST"
    except Py4JJavaError:
        return False
    finally:
        gateway.shutdown()
        process.terminate()
        process.wait(10)


def test_what_the_preflight_says_is_what_spark_finds(
    case: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, wrong = case
    settings = replace(load_settings(env={}), is_local=False)
    with pytest.raises(S3Error) as caught:
        check_warehouse("s3a://bucket/lab", settings)
    where, _, text = str(caught.value).partition(": ")
    assert where == "bucket 'bucket' at http://127.0.0.1:9"
    assert "HIDDEN" not in text
    if wrong == "sso":
        why = "Python's client gets its keys from 'sso', which Spark's client does not support"
        assert text == why + REMEDY
    elif wrong:
        file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", str(home / ".aws" / "credentials"))
        why = f"profile 'x' is not in {file}, and Spark's client reads no other file"
        assert text == why + REMEDY
    else:
        assert text.startswith("the server does not answer (EndpointConnectionError); ")
    assert java_finds_keys(home, monkeypatch) == (not wrong)


def test_the_chain_is_the_one_that_the_session_uses() -> None:
    defaults = (load_settings(env={}).conf_dir / "spark-defaults.conf").read_text()
    assert "com.amazonaws.auth.DefaultAWSCredentialsProviderChain" in defaults
