"""The templates of conf/deploy: explained, valid, and for what the bundle and the image contain."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Any

import botocore.session
import pytest
import yaml
from botocore.validate import ParamValidator
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from hudilab.settings_file import read_options
from hudilab_cli import bundle
from hudilab_jobs.kafka.connection import kafka_groups
from hudilab_jobs.settings import load_settings

ROOT = Path(__file__).resolve().parents[3]
CONF, DEPLOY = ROOT / "conf", ROOT / "conf" / "deploy"
VALUES = DEPLOY / "values.sh"
TEMPLATES = sorted(file.name for file in DEPLOY.iterdir() if file != VALUES)
POLICIES = [name for name in TEMPLATES if name.startswith("iam-")]
IMAGE_ROOT = "/opt/hudilab"
# What the templates add to the Spark settings of conf/, and what the platform chooses instead.
ADDED = (
    *("spark.jars", "spark.archives", "spark.emr-serverless.", "spark.executorEnv."),
    *("spark.driver.extraClassPath", "spark.executor.extraClassPath"),
)
CHOSEN = ("spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.ui.")
CREDENTIALS = "spark.hadoop.fs.s3a.aws.credentials.provider"
# Amazon MSK Developer Guide, "Semantics of IAM authorization policy actions and resources".
KAFKA = {
    "Connect": "cluster",
    "WriteDataIdempotently": "cluster",
    "DescribeTopic": "topic",
    "ReadData": "topic",
    "WriteData": "topic",
    "DescribeGroup": "group",
    "AlterGroup": "group",
}
# Actions of S3 whose operation has another name.
S3 = {"ListBucket": "ListObjectsV2", "ListMultipartUploadParts": "ListParts"}
# openAPIV3Schema of config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml in
# kubeflow/spark-operator (Apache-2.0), August 2026, without its descriptions.
SCHEMA = ROOT / "tests" / "unit" / "samples" / "sparkapplication-v1beta2.json.gz"


def values(changes: str = "") -> dict[str, str]:
    """What values.sh exports, with `changes` to it."""
    show = f"exec {sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    script = f". {VALUES}\n{changes}\n{show}"
    done = subprocess.run(["sh", "-euc", script], capture_output=True, env={}, check=True)
    return {name: text for name, text in json.loads(done.stdout).items() if name in explained()}


def explained() -> list[str]:
    """The variables of values.sh below a comment."""
    return re.findall(r"(?m)^# .+\nexport (\w+)=.", VALUES.read_text("utf-8"))


def filled(name: str, changes: str = "") -> dict[str, Any]:
    """A template with the values, as `envsubst` would fill it in; an unknown variable fails."""
    text = Template((DEPLOY / name).read_text("utf-8")).substitute(values(changes))
    return dict(json.loads(text) if name.endswith(".json") else yaml.safe_load(text))


def request(changes: str = "") -> dict[str, Any]:
    return filled("emr-job-run.json", changes)


def emr_conf() -> dict[str, str]:
    (spark,) = request()["configurationOverrides"]["applicationConfiguration"]
    return dict(spark["properties"])


def test_each_variable_is_explained_and_used() -> None:
    used = {
        name
        for file in TEMPLATES
        for name in Template((DEPLOY / file).read_text()).get_identifiers()
    }
    assert sorted(explained()) == sorted(used)
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    assert [name for name in TEMPLATES if name not in page] == []


def test_the_values_are_those_of_the_settings() -> None:
    settings, given = load_settings("AWS", {}), values()
    consumer, producer = kafka_groups(settings)
    assert consumer is not None
    assert producer is not None
    warehouse = f"s3://{given['WAREHOUSE_BUCKET']}/{given['WAREHOUSE_PREFIX']}"
    assert (warehouse, given["REGION"]) == (settings.warehouse_path, settings.aws_region)
    topics = given["TOPIC_READ"], given["TOPIC_WRITTEN"], given["TOPIC_DEAD"]
    assert topics == (
        *(consumer.topic_name, producer.topic_name),
        producer.dead_letter_topic_name,
    )


# --- what is started


def test_emr_starts_what_the_bundle_contains() -> None:
    spark = request('JOB_ARGUMENTS=\'["stream", "orders"]\'')["jobDriver"]["sparkSubmit"]
    root, conf = f"s3://{values()['BUNDLE']}", emr_conf()
    assert spark["entryPoint"].removeprefix(f"{root}/") in bundle._package()
    assert spark["entryPointArguments"] == ["stream", "orders"]
    assert conf["spark.jars"] == f"{root}/{bundle.JAR}"
    assert conf["spark.archives"] == f"{root}/hudilab-bundle.zip#bundle"


def test_kubernetes_starts_what_the_image_contains() -> None:
    spec = filled("spark-application.yaml")["spec"]
    assert spec["sparkVersion"] == version("pyspark")
    assert (ROOT / spec["mainApplicationFile"].removeprefix(f"local://{IMAGE_ROOT}/")).is_file()
    build = (ROOT / "docker" / "build.sh").read_text("utf-8")
    (fetched,) = re.findall(r"docker/jars.py (.+)", build)
    groups = (*bundle.GROUPS, "s3")
    assert set(groups) <= set(fetched.split())
    for role in ("driver", "executor"):
        path = spec["sparkConf"][f"spark.{role}.extraClassPath"].split(":")
        assert sorted(path) == sorted(f"{IMAGE_ROOT}/jars/{group}/*" for group in groups)


@pytest.mark.parametrize("platform", ["EMR", "Kubernetes"])
def test_the_spark_settings_are_those_of_conf(platform: str) -> None:
    on_emr = platform == "EMR"
    conf = emr_conf() if on_emr else filled("spark-application.yaml")["spec"]["sparkConf"]
    wanted: dict[str, str] = {}
    for file in ("spark-defaults.conf", "aws/spark-defaults.conf"):
        wanted |= read_options(CONF / file)
    gone = (*CHOSEN, CREDENTIALS) if on_emr else CHOSEN  # EMR's role has its own provider
    assert {key: text for key, text in conf.items() if not key.startswith(ADDED)} == {
        key: text for key, text in wanted.items() if not key.startswith(gone)
    }


# --- judges: AWS's model of StartJobRun, the operator's schema, and IAM's actions

ENDS = "JOB_MODE=BATCH RETRY_POLICY='{\"maxAttempts\": 1}' RESTART=OnFailure"


@pytest.mark.parametrize("changes", ["", ENDS], ids=["endless", "ends"])
def test_aws_accepts_the_request(changes: str) -> None:
    model = botocore.session.get_session().get_service_model("emr-serverless")
    shape = model.operation_model("StartJobRun").input_shape
    run = request(changes)
    # The AWS CLI adds the token itself.
    report = ParamValidator().validate(run | {"clientToken": "a"}, shape).generate_report()
    assert report == ""
    # botocore itself does not compare patterns.
    for name in ("applicationId", "executionRoleArn", "name"):
        pattern = shape.members[name].metadata["pattern"].replace("\\u002F", "/")
        assert re.fullmatch(pattern, run[name]), name
    assert run["mode"] in shape.members["mode"].enum
    assert len(emr_conf()) <= 100


def closed(schema: Any) -> Any:
    """The schema with unknown fields as errors: a cluster would drop them without a word."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: closed(value) for key, value in schema.items()}
    if isinstance(parts.get("properties"), dict) and parts.get("type") == "object":
        parts.setdefault("additionalProperties", False)
    return parts


@pytest.mark.parametrize("changes", ["", ENDS], ids=["endless", "ends"])
def test_the_operator_accepts_the_manifest(changes: str) -> None:
    validator = Draft7Validator(closed(json.loads(gzip.decompress(SCHEMA.read_bytes()))))
    document = filled("spark-application.yaml", changes)
    # The metadata is Kubernetes' own, and free in this schema.
    errors = validator.iter_errors(document | {"metadata": {}})
    assert [error.json_path for error in errors] == []


@pytest.mark.parametrize("name", POLICIES)
def test_each_action_exists_and_fits_its_resource(name: str) -> None:
    session = botocore.session.get_session()
    services = ("s3", "logs", "sts")
    known = {each: session.get_service_model(each).operation_names for each in services}
    policy = filled(name, "PARTITION=aws-cn")
    for statement in policy["Statement"]:
        resources = statement.get("Resource", [])
        assert [arn for arn in resources if not re.fullmatch(r"arn:aws-cn:[^*]+\*?", arn)] == []
        actions = statement["Action"]
        for action in [actions] if isinstance(actions, str) else actions:
            service, _, operation = action.partition(":")
            if service == "kafka-cluster":
                kinds = {arn.split(":")[5].partition("/")[0] for arn in resources}
                assert kinds == {KAFKA.get(operation)}, action
            else:
                assert S3.get(operation, operation) in known[service], action
