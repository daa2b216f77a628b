"""The manifest for Kubernetes, held to the Spark Operator's own schema of v1beta2."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]
from refusals import refused

from hudilab.errors import BundleError
from hudilab.settings import Settings, load_settings
from hudilab_cli.kubernetes import LAB, application

ROOT = Path(__file__).resolve().parents[3]
# openAPIV3Schema of config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml in
# kubeflow/spark-operator (Apache-2.0), August 2026, without its descriptions.
SCHEMA = ROOT / "tests" / "unit" / "samples" / "sparkapplication-v1beta2.json.gz"


def closed(schema: Any) -> Any:
    """The schema with unknown fields as errors: a cluster would drop them without a word."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


VALIDATOR = Draft7Validator(closed(json.loads(gzip.decompress(SCHEMA.read_bytes()))))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    return load_settings("AWS", {"HUDILAB_CONF": str(tmp_path / "conf")})


def manifest(settings: Settings, **other: Any) -> dict[str, Any]:
    usual = {"image": "lab/hudilab:0.1.0", "namespace": "lab", "service_account": "spark"}
    return application(settings, **{**usual, "executors": 3, **other})


def problems(found: dict[str, Any]) -> list[str]:
    # The metadata is Kubernetes' own, and free in this schema.
    checked = found | {"metadata": {}}
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(checked)]


def test_the_operator_takes_the_manifest(settings: Settings) -> None:
    assert problems(manifest(settings)) == []


def test_the_schema_finds_mistakes(settings: Settings) -> None:
    found = manifest(settings)
    found["spec"]["driver"]["cores"] = "one"
    found["spec"]["executor"]["instance"] = 2
    found["spec"]["type"] = "PySpark"
    del found["spec"]["sparkVersion"]
    assert len(problems(found)) == 4


def test_it_says_what_the_settings_say(settings: Settings) -> None:
    spec = manifest(settings)["spec"]
    assert spec["mainApplicationFile"] == f"local://{LAB}/lib/hudilab_jobs/stock_prices.py"
    assert spec["arguments"] == ["--trigger-seconds", "60"]
    assert spec["restartPolicy"]["type"] == "Always"  # an endless stream
    assert spec["executor"]["instances"] == 3
    conf = spec["sparkConf"]
    assert conf["spark.serializer"] == "org.apache.spark.serializer.KryoSerializer"
    assert (
        "DefaultAWSCredentialsProviderChain" in conf["spark.hadoop.fs.s3a.aws.credentials.provider"]
    )
    assert not [key for key in conf if key in ("spark.master", "spark.driver.host")]
    for role in ("driver", "executor"):
        assert {"name": "RUNTIME_ENV", "value": "AWS"} in spec[role]["env"]
        assert spec[role]["securityContext"]["runAsNonRoot"] is True


def test_the_class_path_is_the_image_s(settings: Settings) -> None:
    conf = manifest(settings)["spec"]["sparkConf"]
    build = (ROOT / "docker" / "build.sh").read_text("utf-8")
    (fetched,) = re.findall(r"docker/jars.py (.+)", build)
    for name in ("driver", "executor"):
        jars = conf[f"spark.{name}.extraClassPath"].split(":")
        assert jars[0].startswith(f"{LAB}/jars/core/hudi-spark")
        assert {Path(jar).parent.name for jar in jars} <= set(fetched.split())
    entry = (ROOT / "docker" / "entrypoint.sh").read_text("utf-8")
    assert "\n    driver)\n" in entry
    assert "\n    executor)\n" in entry


@pytest.mark.parametrize(
    ("option", "value", "shape"),
    [
        ("image", "a b", "an image's name, such as hudilab:0.1.0"),
        ("namespace", "Lab", "a name of Kubernetes (lowercase letters, digits and -)"),
        ("service_account", "-", "a name of Kubernetes (lowercase letters, digits and -)"),
        ("executors", 0, "a number of 1 or more"),
    ],
)
def test_a_malformed_argument_is_named(
    settings: Settings, option: str, value: Any, shape: str
) -> None:
    flag = f"--{option.replace('_', '-')}"
    with refused(BundleError, f"{flag} is not {shape}", remedy="; fix the command line"):
        manifest(settings, **{option: value})
