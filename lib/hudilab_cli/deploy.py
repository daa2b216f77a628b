"""JSON for the AWS CLI to deploy the bundle: an EMR Serverless job run, and its role's policies."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from hudilab.errors import BundleError
from hudilab.groups import (
    PREFIX,
    RUN_GROUP,
    Client,
    FilePipeline,
    RunOptions,
    TablePipeline,
    TopicPipeline,
)
from hudilab.paths import rewrite_scheme
from hudilab.settings import Settings, run_options
from hudilab.settings_file import read_options
from hudilab_jobs import JOBS, PIPELINE_JOBS
from hudilab_jobs.kafka import Access
from hudilab_jobs.pipelines.running import find_group

BUNDLE = "hudilab-bundle.zip"
LOG_GROUP = "/aws/emr-serverless"
# The bundle fits the Python that built it, in a custom image; EMR 7's own Python is 3.9.
PYTHON = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
# Spark names its consumer groups like this, with a suffix that cannot be known in advance.
GROUPS = "spark-kafka-source-*"
_BUCKET = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/([\w./-]*[\w-])/?", re.ASCII)
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::(\d{12}):role/[\w+=,.@/-]+", re.ASCII)
_CLUSTER = re.compile(r"arn:aws[a-z-]*:kafka:([a-z0-9-]+):(\d{12}):cluster/([\w-]+)/([\w-]+)", re.A)
# The platform chooses these: our values are for this machine, or for another S3 client.
_OURS_ONLY = ("spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.ui.")
CREDENTIALS = "spark.hadoop.fs.s3a.aws.credentials.provider"


def job_run(
    settings: Settings, *, application_id: str, role_arn: str, to: str, python: str = PYTHON
) -> dict[str, Any]:
    """Return the StartJobRun request for the job that group `spark.run.options` names.

    Args:
        to: where the bundle is: s3://bucket/prefix.
        python: a path in the application's image, or the s3:// URL of an environment as .tar.gz.

    Raises:
        BundleError: arguments are malformed (all are named at once) or in another AWS partition, or
            the settings are wrong for AWS.
        ConfigError: the settings do not have the group.
    """
    problems = [] if re.fullmatch(r"[0-9a-z]{1,64}", application_id) else ["--application-id"]
    problems += [] if _ROLE.fullmatch(role_arn) else ["--role-arn"]
    problems += [] if _BUCKET.fullmatch(to) else ["--to"]
    problems += [] if re.fullmatch(r"(s3:/)?/[\w./-]+", python) else ["--python"]
    _refuse(problems)
    _partition(settings, role_arn=role_arn)
    _warehouse(settings)
    job, root = chosen_job(settings), to.rstrip("/")
    run = job.run
    properties = spark_properties(settings) | _of_the_bundle(root, run.jarfile, python)
    request: dict[str, Any] = {
        "applicationId": application_id,
        "executionRoleArn": role_arn,
        "name": run.job,
        "mode": "STREAMING" if job.endless else "BATCH",
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": f"{root}/{run.python}",
                "entryPointArguments": [run.job, *job.arguments],
            }
        },
        "configurationOverrides": {
            "applicationConfiguration": [
                {"classification": "spark-defaults", "properties": properties}
            ],
            "monitoringConfiguration": _logs(root, run.job),
        },
    }
    # After a restart it resumes from its checkpoint; five failures within an hour end it.
    return request | ({"retryPolicy": {"maxFailedAttemptsPerHour": 5}} if job.endless else {})


class Job(NamedTuple):
    """The job of the settings, its command line, and the value of each of its options."""

    run: RunOptions
    arguments: list[str]
    options: Mapping[str, Any]

    @property
    def endless(self) -> bool:
        """Whether it runs until it is stopped: it could end with --available-now, and need not."""
        return not self.options.get("available_now", True) and not self.options.get("check")

    @property
    def name(self) -> str:
        """The job and, for a pipeline, its name: in lowercase letters, digits and -."""
        words = f"{self.run.job} {self.options.get('name', '')}"
        return "-".join(re.findall(r"[a-z0-9]+", words.lower()))


def chosen_job(settings: Settings) -> Job:
    """Return the job that group `spark.run.options` names.

    Raises:
        BundleError: there is no such job, or its arguments are wrong.
        ConfigError: the settings do not have the group, or not the pipeline that the job runs.
    """
    run = run_options(settings)
    if run.job not in JOBS:
        raise BundleError(
            f"job={run.job!r} in {settings.origin(RUN_GROUP, 'job')} is not a job",
            f"use one of: {', '.join(JOBS)}",
        )
    app, arguments = typer.Typer(), shlex.split(run.arguments)
    app.command()(import_module(f"hudilab_jobs.{run.job}").command)
    try:
        options = get_command(app).make_context(run.job, [*arguments]).params
    except TyperException as error:
        file = settings.origin(RUN_GROUP, "arguments")
        raise BundleError(
            f"arguments={run.arguments!r} in {file} do not fit job {run.job} "
            f"({error.format_message().rstrip('.')})",
            f"fix them: hudilab submit {run.job} --help",
        ) from None
    if run.job in PIPELINE_JOBS:
        find_group(settings, options["name"])
    return Job(run, arguments, options)


def _logs(root: str, job: str) -> dict[str, Any]:
    """Return where the job's logs go: next to the bundle, and the driver's to CloudWatch."""
    return {
        "s3MonitoringConfiguration": {"logUri": f"{root}/logs/"},
        "cloudWatchLoggingConfiguration": {
            "enabled": True,
            "logGroupName": LOG_GROUP,
            "logStreamNamePrefix": job,
            "logTypes": {"SPARK_DRIVER": ["STDOUT", "STDERR"]},
        },
    }


def _of_the_bundle(root: str, jarfile: str, python: str) -> dict[str, str]:
    """Return the Spark settings that name the bundle's jar and archive, and the Python to use."""
    archives, interpreter = [f"{root}/{BUNDLE}#bundle"], python
    if python.startswith("s3://"):
        archives.append(f"{python}#environment")
        interpreter = "./environment/bin/python"
    return {
        "spark.jars": f"{root}/{jarfile}",
        "spark.archives": ",".join(archives),
        "spark.emr-serverless.driverEnv.RUNTIME_ENV": "AWS",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": interpreter,
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": interpreter,
        "spark.executorEnv.PYSPARK_PYTHON": interpreter,
    }


def permissions(
    settings: Settings, *, account: str, to: str, cluster_arn: str = ""
) -> dict[str, Any]:
    """Return the policy of the job's role: warehouse, bundle, logs, and what the job reads.

    That is its topics on MSK, or the folder or table on S3 of a pipeline.

    Raises:
        BundleError: arguments are malformed (all are named at once) or in another AWS partition, or
            the settings are wrong for AWS.
    """
    problems = [] if re.fullmatch(r"\d{12}", account) else ["--account"]
    problems += [] if _BUCKET.fullmatch(to) else ["--to"]
    cluster = _CLUSTER.fullmatch(cluster_arn) if cluster_arn else None
    problems += ["--cluster-arn"] if cluster_arn and not cluster else []
    _refuse(problems)
    aws = _partition(settings, **({"cluster_arn": cluster_arn} if cluster_arn else {}))
    bucket, prefix = _warehouse(settings)
    code = f"arn:{aws}:s3:::{to.removeprefix('s3://').rstrip('/')}"
    logs = f"arn:{aws}:logs:{settings.aws_region}:{account}:log-group"
    statements = [
        *_on_the_warehouse(f"arn:{aws}:s3:::{bucket}", prefix),
        _allow("ReadBundle", ["s3:GetObject"], [f"{code}/*"]),
        _allow("WriteLogs", ["s3:PutObject"], [f"{code}/logs/*"]),
        _allow("FindLogGroups", ["logs:DescribeLogGroups"], [f"{logs}:*"]),
        _allow(
            "WriteLogStreams",
            ["logs:DescribeLogStreams", "logs:CreateLogStream", "logs:PutLogEvents"],
            [f"{logs}:{LOG_GROUP}:*"],
        ),
    ]
    job = chosen_job(settings)
    if cluster:
        statements += _topics(settings, job, cluster_arn)
    statements += _source(settings, job, f"arn:{aws}:s3:::", (bucket, prefix))
    return {"Version": "2012-10-17", "Statement": statements}


def _on_the_warehouse(bucket: str, prefix: str) -> list[dict[str, Any]]:
    warehouse = f"{bucket}/{prefix}"
    return [
        _allow(
            "ListWarehouse",
            ["s3:ListBucket"],
            [bucket],
            # IfExists: reading a missing object needs this right too (S3 answers 403 instead of
            # 404 without it), and such a request has no prefix.
            {"StringLikeIfExists": {"s3:prefix": [prefix, f"{prefix}/*"]}},
        ),
        _allow(
            "ReadAndWriteWarehouse",
            [
                "s3:GetObject",
                "s3:PutObject",
                "s3:DeleteObject",
                "s3:AbortMultipartUpload",
                "s3:ListMultipartUploadParts",
            ],
            [f"{warehouse}/*"],
        ),
        # Hadoop checks for a file at the warehouse's path before it creates the folder.
        _allow("FindWarehouse", ["s3:GetObject"], [warehouse]),
    ]


def trust(*, account: str) -> dict[str, Any]:
    """Return the role's trust policy: EMR Serverless, for this account's applications only."""
    _refuse([] if re.fullmatch(r"\d{12}", account) else ["--account"])
    statement = {
        "Sid": "EmrServerless",
        "Effect": "Allow",
        "Principal": {"Service": "emr-serverless.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {"StringEquals": {"aws:SourceAccount": account}},
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def _source(
    settings: Settings, job: Job, arn: str, warehouse: tuple[str, str]
) -> list[dict[str, Any]]:
    """Return what lets a pipeline read its folder or table on S3, outside of the warehouse."""
    group = settings.pipelines.get(job.options.get("name", ""))
    if not isinstance(group, FilePipeline | TablePipeline) or not group.uri.startswith("s3a://"):
        return []
    bucket, _, path = group.uri.removeprefix("s3a://").rstrip("/").partition("/")
    if bucket == warehouse[0] and f"{path}/".startswith(f"{warehouse[1]}/"):
        return []
    prefixes = {"StringLikeIfExists": {"s3:prefix": [path, f"{path}/*"]}} if path else None
    return [
        _allow("ListSource", ["s3:ListBucket"], [f"{arn}{bucket}"], prefixes),
        _allow("ReadSource", ["s3:GetObject"], [f"{arn}{group.uri[6:].rstrip('/')}/*"]),
    ]


def _clients(settings: Settings, job: Job) -> tuple[str, Client, list[str]]:
    """Return the group of the topic that the job reads, its settings, and the topics it writes."""
    if job.run.job in PIPELINE_JOBS:
        name = job.options["name"]
        group = settings.pipelines[name]
        if isinstance(group, TopicPipeline):
            return f"{PREFIX}{name}", group, []
    elif job.run.job == "stock_prices":
        reader, writer = settings.consumer, settings.producer
        if reader is None or writer is None:
            raise BundleError(
                f"--cluster-arn is given, but {settings.source} has no Kafka groups",
                "add consumer.config.0 and producer.config.0",
            )
        return "consumer.config.0", reader, [writer.topic_name, writer.dead_letter_topic_name]
    raise BundleError(
        f"--cluster-arn is given, but job {job.name!r} in {settings.origin(RUN_GROUP, 'job')} uses "
        "no topic",
        "leave out --cluster-arn",
    )


def _topics(settings: Settings, job: Job, cluster: str) -> list[dict[str, Any]]:
    name, reader, written = _clients(settings, job)
    if not Access(reader.bootstrap_servers).iam:
        file = settings.origin(name, "bootstrap.servers")
        raise BundleError(
            f"bootstrap.servers in {file} are not a cluster's IAM servers, which use port 9098",
            "fix them, or leave out --cluster-arn",
        )

    def arn(kind: str, name: str) -> str:
        return f"{cluster.replace(':cluster/', f':{kind}/')}/{name}"

    described = ["kafka-cluster:DescribeTopic"]
    # Kafka 3's producer is idempotent: it numbers messages, so a retry writes none twice.
    once = ["kafka-cluster:WriteDataIdempotently"] if written else []
    statements = [
        _allow("ConnectToCluster", ["kafka-cluster:Connect", *once], [cluster]),
        _allow(
            "ReadTopic",
            [*described, "kafka-cluster:ReadData"],
            [arn("topic", reader.topic_name)],
        ),
        _allow(
            "ReadInAGroup",
            ["kafka-cluster:DescribeGroup", "kafka-cluster:AlterGroup"],
            [arn("group", GROUPS)],
        ),
    ]
    if written:
        out = [arn("topic", name) for name in written]
        statements.append(_allow("WriteTopics", [*described, "kafka-cluster:WriteData"], out))
    return statements


def _allow(
    sid: str, actions: list[str], resources: list[str], condition: dict[str, Any] | None = None
) -> dict[str, Any]:
    statement = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
    return statement | ({"Condition": condition} if condition else {})


def _partition(settings: Settings, **arns: str) -> str:
    """Return the AWS partition of aws.region (aws, aws-cn, ...); `arns` must be in the same one."""
    from botocore.exceptions import UnknownRegionError
    from botocore.session import get_session

    file = settings.origin("HudiTable0", "aws.region")
    try:
        partition = str(get_session().get_partition_for_region(settings.aws_region))
    except UnknownRegionError:
        raise BundleError(
            f"aws.region={settings.aws_region!r} in {file} is not an AWS region", "fix it"
        ) from None
    for name, arn in arns.items():
        if (other := arn.split(":")[1]) != partition:
            option = f"--{name.replace('_', '-')}"
            raise BundleError(
                f"{option} is in AWS partition {other}, but aws.region={settings.aws_region!r} in "
                f"{file} is in {partition}",
                "fix one of the two",
            )
    return partition


def _warehouse(settings: Settings) -> tuple[str, str]:
    """Return bucket and prefix; a policy for a whole bucket would not be least privilege."""
    uri = rewrite_scheme(settings.warehouse_path, settings.home).replace("s3a://", "s3://")
    bucket_and_prefix = _BUCKET.fullmatch(uri)
    if bucket_and_prefix is None:
        file = settings.origin("HudiTable0", "warehouse.path")
        raise BundleError(
            f"warehouse.path in {file} is not s3://<bucket>/<prefix>",
            "set it to one, so that the role gets access to the prefix and not to the whole bucket",
        )
    return bucket_and_prefix[1], bucket_and_prefix[2]


def spark_properties(settings: Settings) -> dict[str, str]:
    """Return the Spark settings of a platform that chooses master, hosts and credentials."""
    properties = read_options(settings.conf_file("spark-defaults.conf"))
    added = settings.conf_file("aws/spark-defaults.conf")
    properties |= read_options(added) if added.is_file() else {}
    # The platform has its own credentials and console.
    left_out = {CREDENTIALS, "spark.ui.showConsoleProgress"}
    return {
        key: value
        for key, value in properties.items()
        if key not in left_out and not key.startswith(_OURS_ONLY)
    }


_SHAPES = {
    "--application-id": "an application ID (digits and lowercase letters)",
    "--role-arn": "arn:aws:iam::<account>:role/<name>",
    "--to": "s3://<bucket>/<prefix>",
    "--python": "an absolute path in the image, or s3://<bucket>/<name>.tar.gz",
    "--account": "an account ID of twelve digits",
    "--cluster-arn": "arn:aws:kafka:<region>:<account>:cluster/<name>/<id>",
}


def _refuse(options: list[str]) -> None:
    if options:
        problems = "; ".join(f"{option} is not {_SHAPES[option]}" for option in options)
        raise BundleError(f"{problems}", "fix the command line")
