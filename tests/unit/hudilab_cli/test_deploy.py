"""The JSON for AWS, held to AWS's own models of its services where botocore has them."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
from refusals import refused

from hudilab.errors import BundleError, ConfigError
from hudilab.settings import Settings, load_settings
from hudilab_cli import cli
from hudilab_cli.deploy import job_run, permissions, trust
from hudilab_cli.kubernetes import application
from hudilab_jobs import JOBS

ROOT = Path(__file__).resolve().parents[3]
ID, ACCOUNT, TO = "00abcdef12345678", "123456789012", "s3://deployments/hudilab/1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/hudilab-job"
CLUSTER = f"arn:aws:kafka:us-east-1:{ACCOUNT}:cluster/prices/aaaa-bbbb-1"
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


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    return load_settings("AWS", {"HUDILAB_CONF": str(tmp_path / "conf")})


def change(settings: Settings, group: str, **properties: str) -> Settings:
    groups = json.loads(settings.source.read_text("utf-8"))
    for entry in groups:
        if entry["PropertyGroupId"] == group:
            entry["PropertyMap"] |= properties
    settings.source.write_text(json.dumps(groups), "utf-8")
    return load_settings("AWS", {"HUDILAB_CONF": str(settings.conf_dir)})


def run(settings: Settings, **more: str) -> dict[str, Any]:
    return job_run(settings, application_id=ID, role_arn=ROLE, to=TO, **more)


def complaints(request: dict[str, Any]) -> str:
    model = botocore.session.get_session().get_service_model("emr-serverless")
    shape = model.operation_model("StartJobRun").input_shape
    # The AWS CLI adds the token itself.
    return str(ParamValidator().validate(request | {"clientToken": "a"}, shape).generate_report())


def strings(request: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each text that the model has a pattern for: botocore does not compare them."""
    model = botocore.session.get_session().get_service_model("emr-serverless")
    members = model.operation_model("StartJobRun").input_shape.members
    for name in ("applicationId", "executionRoleArn", "name"):
        yield members[name].metadata["pattern"].replace("\\u002F", "/"), request[name]


def test_the_request_is_what_the_service_takes(settings: Settings) -> None:
    request = run(settings)
    assert complaints(request) == ""
    for pattern, text in strings(request):
        assert re.fullmatch(pattern, text), pattern
    assert "Unknown parameter" in complaints(request | {"entryPoint": "x"})


def test_the_request_says_what_the_settings_say(settings: Settings) -> None:
    request = run(settings)
    assert (request["name"], request["mode"]) == ("stock_prices", "STREAMING")
    assert request["retryPolicy"] == {"maxFailedAttemptsPerHour": 5}
    submit = request["jobDriver"]["sparkSubmit"]
    assert submit == {
        "entryPoint": f"{TO}/main.py",
        "entryPointArguments": ["stock_prices", "--trigger-seconds", "60"],
    }
    (spark,) = request["configurationOverrides"]["applicationConfiguration"]
    found = spark["properties"]
    assert found["spark.jars"] == f"{TO}/lib/hudilab-dependencies.jar"
    assert found["spark.archives"] == f"{TO}/hudilab-bundle.zip#bundle"
    assert found["spark.emr-serverless.driverEnv.RUNTIME_ENV"] == "AWS"
    assert found["spark.serializer"] == "org.apache.spark.serializer.KryoSerializer"
    assert found["spark.sql.shuffle.partitions"] == "64"
    assert not [key for key in found if "credentials" in key or key == "spark.master"]
    assert len(found) <= 100


def test_a_job_that_ends_is_a_batch(settings: Settings) -> None:
    bounded = change(settings, "spark.run.options", arguments="--available-now")
    other = change(settings, "spark.run.options", job="sensor_readings", arguments="")
    for bounded_settings in (bounded, other):
        request = run(bounded_settings)
        assert (request["mode"], "retryPolicy" in request) == ("BATCH", False)
        assert complaints(request) == ""


TOPIC = {
    "source.format": "kafka",
    "topic.name": "orders-in",
    "bootstrap.servers": "b-2.example.kafka.us-east-1.amazonaws.com:9098",
    "source.schema": "id BIGINT, at TIMESTAMP",
    "table.name": "orders",
    "record.key": "id",
    "ordering": "at",
}
FOLDER = {
    "source.format": "json",
    "source.path": "s3://landing/orders",
    "table.name": "orders",
    "record.key": "id",
    "ordering": "at",
}


def with_job(
    settings: Settings, job: str, arguments: str, pipeline: dict[str, str] | None = None
) -> Settings:
    """The settings with another job, and with a group pipeline.orders."""
    groups = json.loads(settings.source.read_text("utf-8"))
    groups = [one for one in groups if one["PropertyGroupId"] != "pipeline.orders"]
    groups += [{"PropertyGroupId": "pipeline.orders", "PropertyMap": pipeline or TOPIC}]
    settings.source.write_text(json.dumps(groups), "utf-8")
    return change(settings, "spark.run.options", job=job, arguments=arguments)


@pytest.mark.parametrize(
    ("job", "arguments", "endless"),
    [
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
    ],
)
def test_a_job_without_end_is_described_so_on_both_platforms(
    settings: Settings, job: str, arguments: str, endless: bool
) -> None:
    chosen = with_job(settings, job, arguments)
    request = run(chosen)
    assert (request["mode"], "retryPolicy" in request) == (
        ("STREAMING", True) if endless else ("BATCH", False)
    )
    assert complaints(request) == ""
    who = {"namespace": "lab", "service_account": "spark"}
    manifest = application(chosen, image="hudilab:0.1.0", executors=1, **who)
    assert manifest["spec"]["restartPolicy"]["type"] == ("Always" if endless else "OnFailure")
    own = f"{job}-orders" if job in ("load", "stream") else job.replace("_", "-")
    assert manifest["metadata"]["name"] == own


def test_all_jobs_are_tried_here() -> None:
    marks = test_a_job_without_end_is_described_so_on_both_platforms.pytestmark  # type: ignore[attr-defined]
    assert {job for job, *_ in marks[0].args[1]} == set(JOBS)


def test_a_job_or_arguments_that_would_fail_at_the_start(settings: Settings) -> None:
    unknown = change(settings, "spark.run.options", job="stocks", arguments="")
    named = ("job='stocks'", f"{settings.source} is not a job")
    with refused(BundleError, *named, remedy=f"; use one of: {', '.join(JOBS)}"):
        run(unknown)
    wrong = change(settings, "spark.run.options", job="stock_prices", arguments="--every 1")
    what = ("arguments='--every 1'", "job stock_prices", "No such option: --every")
    with refused(BundleError, *what, remedy="; fix them: hudilab submit stock_prices --help"):
        run(wrong)
    missing = change(settings, "spark.run.options", job="stream", arguments="order")
    with refused(ConfigError, "'pipeline.order'", remedy="record.key and ordering"):
        run(missing)


def test_python_from_an_archive(settings: Settings) -> None:
    request = run(settings, python="s3://deployments/python311.tar.gz")
    found = request["configurationOverrides"]["applicationConfiguration"][0]["properties"]
    assert found["spark.archives"].endswith(",s3://deployments/python311.tar.gz#environment")
    assert found["spark.emr-serverless.driverEnv.PYSPARK_PYTHON"] == "./environment/bin/python"


FIX = "; fix the command line"


def test_all_that_is_wrong_is_in_one_error(settings: Settings) -> None:
    options = (
        *("--application-id", "digits and lowercase letters"),
        *("--role-arn", "arn:aws:iam::<account>:role/<name>"),
        *("--to", "s3://<bucket>/<prefix>"),
        *("--python", "absolute path", "s3://<bucket>/<name>.tar.gz"),
    )
    with refused(BundleError, *options, remedy=FIX):
        job_run(settings, application_id="A", role_arn="me", to="s3://b", python="python3")
    cluster = "arn:aws:kafka:<region>:<account>:cluster/<name>/<id>"
    bad = ("--account", "twelve digits", "--cluster-arn", cluster)
    with refused(BundleError, *bad, remedy=FIX):
        permissions(settings, account="1", to=TO, cluster_arn="x")


@pytest.mark.parametrize("warehouse", ["warehouse", "s3://whole-bucket"])
def test_a_warehouse_that_is_not_a_prefix_on_s3(settings: Settings, warehouse: str) -> None:
    local = change(settings, "HudiTable0", **{"warehouse.path": warehouse})
    for ask in (run, lambda s: permissions(s, account=ACCOUNT, to=TO)):
        named = (f"warehouse.path in {settings.source}", "s3://<bucket>/<prefix>; set it to one")
        with refused(BundleError, *named, remedy="not to the whole bucket"):
            ask(local)


def test_permissions_for_a_cluster_without_iam_servers(settings: Settings) -> None:
    for group in ("consumer.config.0", "producer.config.0"):
        settings = change(settings, group, **{"bootstrap.servers": "b:9092"})
    named = (f"bootstrap.servers in {settings.source}", "9098")
    with refused(BundleError, *named, remedy="; fix them, or leave out --cluster-arn"):
        permissions(settings, account=ACCOUNT, to=TO, cluster_arn=CLUSTER)


def test_permissions_for_a_cluster_that_no_group_reads(settings: Settings) -> None:
    remedy = "; add consumer.config.0 and producer.config.0"
    with refused(BundleError, "--cluster-arn", f"{settings.source}", "Kafka", remedy=remedy):
        permissions(replace(settings, consumer=None), account=ACCOUNT, to=TO, cluster_arn=CLUSTER)


def operations(service: str) -> set[str]:
    model = botocore.session.get_session().get_service_model(service)
    return set(model.operation_names)


def wrong_actions(policy: dict[str, Any]) -> list[str]:
    """Actions that no service has, or that are allowed on the wrong kind of resource."""
    known = {"s3": operations("s3"), "logs": operations("logs"), "sts": operations("sts")}
    wrong = []
    for statement in policy["Statement"]:
        actions = statement["Action"]
        for action in [actions] if isinstance(actions, str) else actions:
            service, _, name = action.partition(":")
            if service == "kafka-cluster":
                kinds = {arn.split(":")[5].partition("/")[0] for arn in statement["Resource"]}
                wrong += [] if kinds == {KAFKA.get(name)} else [action]
            elif S3.get(name, name) not in known.get(service, ()):
                wrong.append(action)
    return wrong


def allowed(policy: dict[str, Any], action: str, arn: str, **context: str) -> bool:
    """IAM's answer, for the kinds of statements that a policy here may have."""

    def matches(patterns: list[str], text: str) -> bool:
        globs = (re.escape(glob).replace(r"\*", ".*") for glob in patterns)
        return any(re.fullmatch(glob, text) for glob in globs)

    def holds(operator: str, keys: dict[str, list[str]]) -> bool:
        assert operator in ("StringLike", "StringLikeIfExists")
        given = {name.partition(":")[2]: patterns for name, patterns in keys.items()}
        absent = operator.endswith("IfExists")
        return all(
            matches(patterns, context[name]) if name in context else absent
            for name, patterns in given.items()
        )

    return any(
        action in one["Action"]
        and matches(one["Resource"], arn)
        and all(holds(*condition) for condition in one.get("Condition", {}).items())
        for one in policy["Statement"]
        if one["Effect"] == "Allow"
    )


def head(policy: dict[str, Any], key: str) -> int:
    """What S3 answers about an object that is not there: API Reference, HeadObject, Permissions."""
    if not allowed(policy, "s3:GetObject", f"arn:aws:s3:::hudilab-warehouse/{key}"):
        return 403
    return 404 if allowed(policy, "s3:ListBucket", "arn:aws:s3:::hudilab-warehouse") else 403


def test_hadoop_s_requests_are_allowed_in_the_warehouse_only(settings: Settings) -> None:
    policy = permissions(settings, account=ACCOUNT, to=TO)
    bucket = "arn:aws:s3:::hudilab-warehouse"
    # An empty warehouse: S3A looks for files where it makes folders, up to the warehouse's own.
    for key in ("lab", "lab/lab", "lab/lab/t/.hoodie/hoodie.properties", "lab/_checkpoints/"):
        assert head(policy, key) == 404, key
    for prefix in ("lab", "lab/", "lab/lab/t/.hoodie/"):
        assert allowed(policy, "s3:ListBucket", bucket, prefix=prefix), prefix
    for action in ("GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload"):
        assert allowed(policy, f"s3:{action}", f"{bucket}/lab/lab/t/x.parquet"), action
        assert allowed(policy, f"s3:{action}", f"{bucket}/lab/"), action
        for other in (f"{bucket}/other/x", f"{bucket}/lab-2/x", "arn:aws:s3:::other/lab/x"):
            assert not allowed(policy, f"s3:{action}", other), (action, other)
    assert not allowed(policy, "s3:PutObject", f"{bucket}/lab")
    for prefix in ("", "other/", "lab-2/", "la"):
        assert not allowed(policy, "s3:ListBucket", bucket, prefix=prefix), prefix
    assert not allowed(policy, "s3:DeleteObject", "arn:aws:s3:::deployments/hudilab/1/main.py")
    assert allowed(policy, "s3:GetObject", "arn:aws:s3:::deployments/hudilab/1/main.py")
    assert not allowed(policy, "s3:PutObject", "arn:aws:s3:::deployments/hudilab/1/main.py")


def test_the_stream_s_requests_to_kafka_are_allowed(settings: Settings) -> None:
    policy = permissions(settings, account=ACCOUNT, to=TO, cluster_arn=CLUSTER)
    topic, group = (CLUSTER.replace(":cluster/", f":{kind}/") for kind in ("topic", "group"))
    assert settings.consumer is not None
    assert settings.producer is not None
    read, written = settings.consumer.topic_name, settings.producer.topic_name
    dead = settings.producer.dead_letter_topic_name
    assert allowed(policy, "kafka-cluster:Connect", CLUSTER)
    assert allowed(policy, "kafka-cluster:ReadData", f"{topic}/{read}")
    assert not allowed(policy, "kafka-cluster:WriteData", f"{topic}/{read}")
    for name in (written, dead):
        assert allowed(policy, "kafka-cluster:WriteData", f"{topic}/{name}")
        assert not allowed(policy, "kafka-cluster:ReadData", f"{topic}/{name}")
    assert allowed(policy, "kafka-cluster:AlterGroup", f"{group}/spark-kafka-source-1-2-driver-0")
    assert not allowed(policy, "kafka-cluster:AlterGroup", f"{group}/payroll")


@pytest.mark.parametrize("job", ["stream", "load"])
def test_a_pipeline_s_topic_is_allowed_and_no_other(settings: Settings, job: str) -> None:
    chosen = with_job(settings, job, "orders")
    policy = permissions(chosen, account=ACCOUNT, to=TO, cluster_arn=CLUSTER)
    topic, group = (CLUSTER.replace(":cluster/", f":{kind}/") for kind in ("topic", "group"))
    assert allowed(policy, "kafka-cluster:Connect", CLUSTER)
    assert allowed(policy, "kafka-cluster:ReadData", f"{topic}/orders-in")
    assert allowed(policy, "kafka-cluster:AlterGroup", f"{group}/spark-kafka-source-1-2-driver-0")
    for name in ("stocks-in", "stocks-out", "stocks-dead"):
        assert not allowed(policy, "kafka-cluster:ReadData", f"{topic}/{name}")
    assert "Write" not in "".join(action for action in actions(policy) if "kafka" in action)
    assert wrong_actions(policy) == []
    plain = with_job(settings, job, "orders", TOPIC | {"bootstrap.servers": "b:9092"})
    with refused(BundleError, "bootstrap.servers", "9098", remedy="or leave out --cluster-arn"):
        permissions(plain, account=ACCOUNT, to=TO, cluster_arn=CLUSTER)


def actions(policy: dict[str, Any]) -> list[str]:
    return [action for statement in policy["Statement"] for action in statement["Action"]]


def test_a_pipeline_s_folder_is_allowed(settings: Settings) -> None:
    policy = permissions(with_job(settings, "load", "orders", FOLDER), account=ACCOUNT, to=TO)
    assert allowed(policy, "s3:GetObject", "arn:aws:s3:::landing/orders/1.json")
    assert not allowed(policy, "s3:PutObject", "arn:aws:s3:::landing/orders/1.json")
    assert not allowed(policy, "s3:GetObject", "arn:aws:s3:::landing/payroll/1.json")
    assert allowed(policy, "s3:ListBucket", "arn:aws:s3:::landing", prefix="orders/")
    assert not allowed(policy, "s3:ListBucket", "arn:aws:s3:::landing", prefix="payroll/")
    assert wrong_actions(policy) == []
    inside = FOLDER | {"source.path": "s3://hudilab-warehouse/lab/lab/readings"}
    inside |= {"source.format": "hudi"}
    other = permissions(with_job(settings, "load", "orders", inside), account=ACCOUNT, to=TO)
    assert "ReadSource" not in json.dumps(other)


@pytest.mark.parametrize(
    ("job", "arguments"), [("sensor_readings", ""), ("tidy", "s3://a/b"), ("stream", "orders")]
)
def test_permissions_for_a_cluster_that_the_job_does_not_use(
    settings: Settings, job: str, arguments: str
) -> None:
    chosen = with_job(settings, job, arguments, FOLDER)
    remedy = "uses no topic; leave out --cluster-arn"
    with refused(BundleError, "--cluster-arn", "job", str(settings.source), remedy=remedy):
        permissions(chosen, account=ACCOUNT, to=TO, cluster_arn=CLUSTER)


@pytest.mark.parametrize(
    ("region", "partition"),
    [("us-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")],
)
def test_every_arn_is_of_the_region_s_partition(
    settings: Settings, region: str, partition: str
) -> None:
    regional = change(settings, "HudiTable0", **{"aws.region": region})
    cluster = CLUSTER.replace("arn:aws:kafka:us-east-1", f"arn:{partition}:kafka:{region}")
    policy = permissions(regional, account=ACCOUNT, to=TO, cluster_arn=cluster)
    arns = [arn for statement in policy["Statement"] for arn in statement["Resource"]]
    assert {arn.split(":")[1] for arn in arns} == {partition}
    role = ROLE.replace("arn:aws:", f"arn:{partition}:")
    request = job_run(regional, application_id=ID, role_arn=role, to=TO)
    assert request["executionRoleArn"] == role


def test_a_region_and_arns_that_do_not_go_together(settings: Settings) -> None:
    china = change(settings, "HudiTable0", **{"aws.region": "cn-north-1"})
    region = f"aws.region='cn-north-1' in {settings.source}"
    for option, ask in (
        ("--role-arn", run),
        (
            "--cluster-arn",
            lambda s: permissions(s, account=ACCOUNT, to=TO, cluster_arn=CLUSTER),
        ),
    ):
        named = (option, "aws", region, "aws-cn")
        with refused(BundleError, *named, remedy="; fix one of the two"):
            ask(china)
    nowhere = change(settings, "HudiTable0", **{"aws.region": "narnia-1"})
    region = f"aws.region='narnia-1' in {settings.source}"
    with refused(BundleError, region, remedy="; fix it"):
        run(nowhere)


def test_the_policy_has_no_wildcard_that_is_too_wide(settings: Settings) -> None:
    policy = permissions(settings, account=ACCOUNT, to=TO, cluster_arn=CLUSTER)
    assert wrong_actions(policy) == []
    assert len({statement["Sid"] for statement in policy["Statement"]}) == len(policy["Statement"])
    for statement in policy["Statement"]:
        assert statement["Effect"] == "Allow"
        assert not [action for action in statement["Action"] if "*" in action]
        for arn in statement["Resource"]:
            assert re.fullmatch(r"arn:aws:(s3|logs|kafka):[a-z0-9-]*:\d*:[^*]+\*?", arn), arn
    # IAM counts what is not blank, 6,144 characters at most in a managed policy.
    assert len(re.sub(r"\s", "", json.dumps(policy))) < 6144
    without = permissions(settings, account=ACCOUNT, to=TO)
    assert "kafka" not in json.dumps(without)
    assert wrong_actions(trust(account=ACCOUNT)) == []


def test_a_wrong_action_is_found() -> None:
    bad = {"Action": ["s3:ReadObject", "kafka-cluster:ReadData"], "Resource": [CLUSTER]}
    assert wrong_actions({"Statement": [bad]}) == bad["Action"]


def test_the_commands_print_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = {
        "job": ["--application-id", ID, "--role-arn", ROLE, "--to", TO],
        "permissions": ["--account", ACCOUNT, "--to", TO, "--cluster-arn", CLUSTER],
        "trust": ["--account", ACCOUNT],
    }
    for name, options in commands.items():
        monkeypatch.setattr(sys, "argv", ["hudilab", "deploy", name, *options])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        assert not caught.value.code
        assert json.loads(capsys.readouterr().out)
