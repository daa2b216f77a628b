"""The filled-in templates, held to AWS's own models and to the Spark Operator's own schema."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
from jsonschema import Draft7Validator  # type: ignore[import-untyped]
from refusals import refused

from hudilab.errors import BundleError, ConfigError
from hudilab.settings import Settings
from hudilab_cli.deploy import IMAGE_ROOT, application, job_run, permissions, trust
from hudilab_jobs import JOBS
from hudilab_jobs.settings import load_settings

ROOT = Path(__file__).resolve().parents[3]
ID, ACCOUNT, TO = "00abcdef12345678", "123456789012", "s3://deployments/hudilab/1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/hudilab-job"
CLUSTER = f"arn:aws:kafka:us-east-1:{ACCOUNT}:cluster/prices/aaaa-bbbb-1"
TOPICS, GROUPS = (CLUSTER.replace(":cluster/", f":{kind}/") for kind in ("topic", "group"))
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
TABLE = {"table.name": "orders", "record.key": "id", "ordering": "at"}
TOPIC = TABLE | {
    "source.format": "kafka",
    "topic.name": "orders-in",
    "bootstrap.servers": "b-2.example.kafka.us-east-1.amazonaws.com:9098",
    "source.schema": "id BIGINT, at TIMESTAMP",
}
FOLDER = TABLE | {"source.format": "json", "source.path": "s3://landing/orders"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    return load_settings("AWS", {"HUDILAB_CONF": str(tmp_path / "conf")})


def change(settings: Settings, group: str, **properties: str) -> Settings:
    """The settings with other properties in a group, which is added if it is missing."""
    groups = json.loads(settings.source.read_text("utf-8"))
    maps = {entry["PropertyGroupId"]: entry["PropertyMap"] for entry in groups}
    maps[group] = maps.get(group, {}) | properties
    groups = [{"PropertyGroupId": name, "PropertyMap": values} for name, values in maps.items()]
    settings.source.write_text(json.dumps(groups), "utf-8")
    return load_settings("AWS", {"HUDILAB_CONF": str(settings.conf_dir)})


def with_job(
    settings: Settings, job: str, arguments: str, pipeline: dict[str, str] = TOPIC
) -> Settings:
    settings = change(settings, "pipeline.orders", **pipeline)
    return change(settings, "spark.run.options", job=job, arguments=arguments)


def run(settings: Settings, **other: str) -> dict[str, Any]:
    usual = {"application_id": ID, "role_arn": ROLE, "to": TO, "python": "/usr/bin/python3.11"}
    return job_run(settings, **(usual | other))


def policy(settings: Settings, cluster_arn: str = "", **other: str) -> dict[str, Any]:
    return permissions(
        settings, cluster_arn=cluster_arn, **({"account": ACCOUNT, "to": TO} | other)
    )


def manifest(settings: Settings, **other: Any) -> dict[str, Any]:
    usual = {"image": "lab/hudilab:0.1.0", "namespace": "lab", "service_account": "spark"}
    return application(settings, **{**usual, "executors": 3, **other})


def spark_properties(request: dict[str, Any]) -> dict[str, str]:
    (spark,) = request["configurationOverrides"]["applicationConfiguration"]
    return dict(spark["properties"])


# --- judges: AWS's model of StartJobRun, the operator's schema, and IAM's rules


def faults(request: dict[str, Any]) -> list[str]:
    """What the model of StartJobRun refuses; botocore itself does not compare its patterns."""
    model = botocore.session.get_session().get_service_model("emr-serverless")
    shape = model.operation_model("StartJobRun").input_shape
    # The AWS CLI adds the token itself.
    report = ParamValidator().validate(request | {"clientToken": "a"}, shape).generate_report()
    names = ("applicationId", "executionRoleArn", "name")
    patterns = {name: shape.members[name].metadata["pattern"] for name in names}
    return [
        *filter(None, [str(report)]),
        *(
            name
            for name, pattern in patterns.items()
            if not re.fullmatch(pattern.replace("\\u002F", "/"), request[name])
        ),
    ]


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


VALIDATOR = Draft7Validator(closed(json.loads(gzip.decompress(SCHEMA.read_bytes()))))


def manifest_faults(document: dict[str, Any]) -> list[str]:
    # The metadata is Kubernetes' own, and free in this schema.
    return [error.json_path for error in VALIDATOR.iter_errors(document | {"metadata": {}})]


def wrong_actions(document: dict[str, Any]) -> list[str]:
    """Actions that no service has, or that are allowed on the wrong kind of resource."""
    session = botocore.session.get_session()
    services = ("s3", "logs", "sts")
    known = {name: session.get_service_model(name).operation_names for name in services}
    wrong = []
    for statement in document["Statement"]:
        actions = statement["Action"]
        for action in [actions] if isinstance(actions, str) else actions:
            service, _, name = action.partition(":")
            if service == "kafka-cluster":
                kinds = {arn.split(":")[5].partition("/")[0] for arn in statement["Resource"]}
                wrong += [] if kinds == {KAFKA.get(name)} else [action]
            elif S3.get(name, name) not in known.get(service, ()):
                wrong.append(action)
    return wrong


def allowed(document: dict[str, Any], action: str, arn: str, **context: str) -> bool:
    """IAM's answer, for the kinds of statements that a policy here may have."""

    def matches(patterns: list[str], text: str) -> bool:
        globs = (re.escape(glob).replace(r"\*", ".*") for glob in patterns)
        return any(re.fullmatch(glob, text) for glob in globs)

    def holds(statement: dict[str, Any]) -> bool:
        condition = statement.get("Condition", {"StringLikeIfExists": {}})
        return all(
            matches(patterns, context.get(key.removeprefix("s3:"), patterns[0]))
            for key, patterns in condition["StringLikeIfExists"].items()
        )

    return any(
        action in statement["Action"] and matches(statement["Resource"], arn) and holds(statement)
        for statement in document["Statement"]
    )


def test_the_judges_find_mistakes(settings: Settings) -> None:
    assert "Unknown parameter" in faults(run(settings) | {"entryPoint": "x"})[0]
    document = manifest(settings)
    document["spec"]["driver"]["cores"] = "one"
    document["spec"]["executor"]["instance"] = 2
    del document["spec"]["sparkVersion"]
    assert len(manifest_faults(document)) == 3
    bad = {"Action": ["s3:ReadObject", "kafka-cluster:ReadData"], "Resource": [CLUSTER]}
    assert wrong_actions({"Statement": [bad]}) == bad["Action"]


# --- the job, on EMR and on Kubernetes


def test_the_request_for_emr(settings: Settings) -> None:
    request = run(settings)
    assert faults(request) == []
    assert request["jobDriver"]["sparkSubmit"] == {
        "entryPoint": f"{TO}/main.py",
        "entryPointArguments": ["stock_prices", "--trigger-seconds", "60"],
    }
    conf = spark_properties(request)
    assert conf["spark.jars"] == f"{TO}/lib/hudilab-dependencies.jar"
    assert conf["spark.archives"] == f"{TO}/hudilab-bundle.zip#bundle"
    assert conf["spark.serializer"] == "org.apache.spark.serializer.KryoSerializer"
    assert conf["spark.sql.shuffle.partitions"] == "64"
    assert not [key for key in conf if "credentials" in key]
    assert len(conf) <= 100
    archive = spark_properties(run(settings, python="s3://deployments/python311.tar.gz"))
    assert archive["spark.archives"].endswith(",s3://deployments/python311.tar.gz#environment")
    driver = "spark.emr-serverless.driverEnv.PYSPARK_PYTHON"
    assert (conf[driver], archive[driver]) == ("/usr/bin/python3.11", "./environment/bin/python")


def test_master_hosts_and_console_are_the_platforms(settings: Settings) -> None:
    ours = ("spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.ui.port")
    with settings.conf_file("spark-defaults.conf").open("a") as lines:
        lines.writelines(f"\n{name} x" for name in (*ours, "spark.mine"))
    for conf in (spark_properties(run(settings)), manifest(settings)["spec"]["sparkConf"]):
        assert conf["spark.mine"] == "x"
        assert not [key for key in conf if key in ours or key.startswith("spark.ui.")]


def test_the_manifest_for_kubernetes(settings: Settings) -> None:
    document = manifest(settings)
    assert manifest_faults(document) == []
    assert "$" not in json.dumps(document)
    spec, conf = document["spec"], document["spec"]["sparkConf"]
    assert spec["mainApplicationFile"] == f"local://{IMAGE_ROOT}/lib/hudilab_jobs/stock_prices.py"
    assert spec["arguments"] == ["--trigger-seconds", "60"]
    assert spec["executor"]["instances"] == 3
    assert conf["spark.serializer"] == "org.apache.spark.serializer.KryoSerializer"
    assert conf["spark.executorEnv.HUDI_CONF_DIR"] == f"{IMAGE_ROOT}/conf"
    assert "DefaultAWSCredentials" in conf["spark.hadoop.fs.s3a.aws.credentials.provider"]
    build = (ROOT / "docker" / "build.sh").read_text("utf-8")
    (fetched,) = re.findall(r"docker/jars.py (.+)", build)
    entry = (ROOT / "docker" / "entrypoint.sh").read_text("utf-8")
    for role in ("driver", "executor"):
        assert {"name": "RUNTIME_ENV", "value": "AWS"} in spec[role]["env"]
        assert spec[role]["securityContext"]["runAsNonRoot"] is True
        jars = conf[f"spark.{role}.extraClassPath"].split(":")
        assert jars[0].startswith(f"{IMAGE_ROOT}/jars/core/hudi-spark")
        assert {Path(jar).parent.name for jar in jars} <= set(fetched.split())
        assert f"\n    {role})\n" in entry


RUNS = [
    ("stream", "orders", True),
    ("stream", "--trigger-seconds 60 orders", True),
    ("stream", "--available-now orders --no-available-now", True),
    ("stream", "orders --available-now", False),
    ("stream", "orders --check", False),
    ("load", "orders", False),
    ("stock_prices", "", True),
    ("stock_prices", "--available-now", False),
    ("sensor_readings", "--rows 10", False),
    ("tidy", "s3://hudilab-warehouse/lab/lab/orders --clean", False),
]


@pytest.mark.parametrize(("job", "arguments", "endless"), RUNS)
def test_an_endless_job_is_restarted(
    settings: Settings, job: str, arguments: str, endless: bool
) -> None:
    chosen = with_job(settings, job, arguments)
    request, document = run(chosen), manifest(chosen)
    assert (request["mode"], request.get("retryPolicy")) == (
        ("STREAMING", {"maxFailedAttemptsPerHour": 5}) if endless else ("BATCH", None)
    )
    assert document["spec"]["restartPolicy"]["type"] == ("Always" if endless else "OnFailure")
    assert (faults(request), manifest_faults(document)) == ([], [])
    name = f"{job}-orders" if job in ("load", "stream") else job.replace("_", "-")
    assert document["metadata"]["name"] == name


def test_every_job_is_in_the_table() -> None:
    assert {job for job, *_ in RUNS} == set(JOBS)


# --- the role


def test_the_role_may_use_the_warehouse_and_the_bundle_only(settings: Settings) -> None:
    role, bucket = policy(settings), "arn:aws:s3:::hudilab-warehouse"
    # An empty warehouse: S3A looks for files where it makes folders, up to the warehouse's own. S3
    # answers 404 and not 403 to a role that may list (API Reference, HeadObject, Permissions).
    assert allowed(role, "s3:ListBucket", bucket)
    for key in ("lab", "lab/lab", "lab/lab/t/.hoodie/hoodie.properties", "lab/_checkpoints/"):
        assert allowed(role, "s3:GetObject", f"{bucket}/{key}"), key
    for prefix in ("lab", "lab/", "lab/lab/t/.hoodie/"):
        assert allowed(role, "s3:ListBucket", bucket, prefix=prefix), prefix
    for prefix in ("", "other/", "lab-2/", "la"):
        assert not allowed(role, "s3:ListBucket", bucket, prefix=prefix), prefix
    for action in ("GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload"):
        for key in ("lab/lab/t/x.parquet", "lab/"):
            assert allowed(role, f"s3:{action}", f"{bucket}/{key}"), (action, key)
        for other in (f"{bucket}/other/x", f"{bucket}/lab-2/x", "arn:aws:s3:::other/lab/x"):
            assert not allowed(role, f"s3:{action}", other), (action, other)
    assert not allowed(role, "s3:PutObject", f"{bucket}/lab")
    script = "arn:aws:s3:::deployments/hudilab/1/main.py"
    assert allowed(role, "s3:GetObject", script)
    assert not [x for x in ("Put", "Delete") if allowed(role, f"s3:{x}Object", script)]
    assert "kafka" not in json.dumps(role)


@pytest.mark.parametrize(
    ("job", "read", "written"),
    [
        ("stock_prices", "stocks-in", ["stocks-out", "stocks-dead"]),
        ("stream", "orders-in", []),
        ("load", "orders-in", []),
    ],
)
def test_the_role_may_use_the_job_s_topics_only(
    settings: Settings, job: str, read: str, written: list[str]
) -> None:
    chosen = with_job(settings, job, "" if job == "stock_prices" else "orders")
    role = policy(chosen, CLUSTER)
    assert allowed(role, "kafka-cluster:Connect", CLUSTER)
    assert allowed(role, "kafka-cluster:WriteDataIdempotently", CLUSTER) == bool(written)
    for name in ("stocks-in", "stocks-out", "stocks-dead", "orders-in"):
        topic = f"{TOPICS}/{name}"
        assert allowed(role, "kafka-cluster:ReadData", topic) == (name == read), name
        assert allowed(role, "kafka-cluster:WriteData", topic) == (name in written), name
    assert allowed(role, "kafka-cluster:AlterGroup", f"{GROUPS}/spark-kafka-source-1-driver-0")
    assert not allowed(role, "kafka-cluster:AlterGroup", f"{GROUPS}/payroll")


@pytest.mark.parametrize(
    ("path", "key", "prefix"),
    [
        ("s3://landing/orders", "orders/1.json", "orders/"),
        ("s3://landing", "1.json", ""),
        ("s3://hudilab-warehouse/lab/lab/readings", "", ""),
    ],
)
def test_the_role_may_read_a_pipeline_s_folder(
    settings: Settings, path: str, key: str, prefix: str
) -> None:
    pipeline = FOLDER | {"source.path": path}
    role = policy(with_job(settings, "load", "orders", pipeline))
    assert wrong_actions(role) == []
    assert allowed(role, "s3:GetObject", f"arn:aws:s3:::landing/{key}") == bool(key)
    assert allowed(role, "s3:ListBucket", "arn:aws:s3:::landing", prefix=prefix) == bool(key)
    assert ("ReadSource" in json.dumps(role)) == bool(key)
    assert not allowed(role, "s3:PutObject", f"arn:aws:s3:::landing/{key}")
    if prefix:
        assert not allowed(role, "s3:GetObject", "arn:aws:s3:::landing/payroll/1.json")
        assert not allowed(role, "s3:ListBucket", "arn:aws:s3:::landing", prefix="payroll/")


@pytest.mark.parametrize(
    ("region", "partition"),
    [("us-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")],
)
def test_every_arn_is_narrow_and_of_the_region_s_partition(
    settings: Settings, region: str, partition: str
) -> None:
    regional = change(settings, "HudiTable0", **{"aws.region": region})
    cluster = CLUSTER.replace("arn:aws:kafka:us-east-1", f"arn:{partition}:kafka:{region}")
    role = policy(regional, cluster)
    assert (wrong_actions(role), wrong_actions(trust(settings, account=ACCOUNT))) == ([], [])
    assert len({statement["Sid"] for statement in role["Statement"]}) == len(role["Statement"])
    for statement in role["Statement"]:
        assert statement["Effect"] == "Allow"
        assert not [action for action in statement["Action"] if "*" in action]
        for arn in statement["Resource"]:
            assert re.fullmatch(rf"arn:{partition}:(s3|logs|kafka):[a-z0-9-]*:\d*:[^*$]+\*?", arn)
    # IAM counts what is not blank, 6,144 characters at most in a managed policy.
    assert len(re.sub(r"\s", "", json.dumps(role))) < 6144
    run(regional, role_arn=ROLE.replace("arn:aws:", f"arn:{partition}:"))


# --- refusals


def plain_topic(settings: Settings) -> Settings:
    return with_job(settings, "load", "orders", TOPIC | {"bootstrap.servers": "b:9092"})


def china(settings: Settings) -> Settings:
    return change(settings, "HudiTable0", **{"aws.region": "cn-north-1"})


@pytest.mark.parametrize("job", ["sensor_readings", "tidy s3://a/b", "stream orders"])
def test_a_cluster_that_the_job_does_not_use(settings: Settings, job: str) -> None:
    name, _, arguments = job.partition(" ")
    remedy = "uses no topic; leave out --cluster-arn"
    with refused(BundleError, "--cluster-arn", "job", str(settings.source), remedy=remedy):
        policy(with_job(settings, name, arguments, FOLDER), CLUSTER)


@pytest.mark.parametrize(
    ("describe", "failed", "remedy"),
    [
        (
            lambda s: run(with_job(s, "stocks", "")),
            ("job='stocks'", "{source} is not a job"),
            f"; use one of: {', '.join(JOBS)}",
        ),
        (
            lambda s: run(with_job(s, "stock_prices", "--every 1")),
            ("arguments='--every 1'", "job stock_prices", "No such option: --every"),
            "; fix them: hudilab submit stock_prices --help",
        ),
        (
            lambda s: run(with_job(s, "stream", "order")),
            ("'pipeline.order'",),
            "record.key and ordering",
        ),
        (
            lambda s: run(with_job(s, "stream", "./order.json")),
            ("arguments='./order.json' in {source}", "a file"),
            "/pipelines, and name it without .json",
        ),
        (
            lambda s: policy(plain_topic(s), CLUSTER),
            ("bootstrap.servers in {source}", "9098"),
            "; fix them, or leave out --cluster-arn",
        ),
        (
            lambda s: policy(replace(s, consumer=None), CLUSTER),
            ("--cluster-arn", "{source}", "Kafka"),
            "; add consumer.config.0 and producer.config.0",
        ),
        (
            lambda s: run(china(s)),
            ("--role-arn", "aws", "aws.region='cn-north-1' in {source}", "aws-cn"),
            "; fix one of the two",
        ),
        (
            lambda s: policy(china(s), CLUSTER),
            ("--cluster-arn", "aws", "aws.region='cn-north-1' in {source}", "aws-cn"),
            "; fix one of the two",
        ),
        (
            lambda s: run(change(s, "HudiTable0", **{"aws.region": "narnia-1"})),
            ("aws.region='narnia-1' in {source}",),
            "; fix it",
        ),
        (
            lambda s: run(change(s, "HudiTable0", **{"warehouse.path": "warehouse"})),
            ("warehouse.path in {source}", "s3://<bucket>/<prefix>; set it to one"),
            "not to the whole bucket",
        ),
        (
            lambda s: policy(change(s, "HudiTable0", **{"warehouse.path": "s3://bucket"})),
            ("warehouse.path in {source}", "s3://<bucket>/<prefix>; set it to one"),
            "not to the whole bucket",
        ),
        (
            lambda s: run(s, application_id="A", role_arn="me", to="s3://b", python="python3"),
            (
                *("--application-id", "digits and lowercase letters"),
                *("--role-arn", "arn:aws:iam::<account>:role/<name>"),
                *("--to", "s3://<bucket>/<prefix>"),
                *("--python", "absolute path", "s3://<bucket>/<name>.tar.gz"),
            ),
            "; fix the command line",
        ),
        (
            lambda s: policy(s, "x", account="1"),
            (
                *("--account", "twelve digits", "--cluster-arn"),
                "arn:aws:kafka:<region>:<account>:cluster/<name>/<id>",
            ),
            "; fix the command line",
        ),
        (
            lambda s: manifest(s, image="a b", namespace="Lab", service_account="-", executors=0),
            (
                "--image is not an image's name, such as hudilab:0.1.0",
                "--namespace is not a name of Kubernetes (lowercase letters, digits and -)",
                "--service-account is not a name of Kubernetes",
                "--executors is not a number of 1 or more",
            ),
            "; fix the command line",
        ),
    ],
)
def test_what_would_fail_at_the_start_is_refused(
    settings: Settings,
    describe: Callable[[Settings], dict[str, Any]],
    failed: tuple[str, ...],
    remedy: str,
) -> None:
    kind = ConfigError if "record.key" in remedy else BundleError
    named = [text.replace("{source}", str(settings.source)) for text in failed]
    with refused(kind, *named, remedy=remedy):
        describe(settings)
