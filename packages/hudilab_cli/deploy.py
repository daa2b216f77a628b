"""Fill in the templates of conf/deploy for the settings' job: for AWS, and for Kubernetes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from string import Template
from typing import Any, NamedTuple

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from hudilab.errors import BundleError
from hudilab.groups import PIPELINES
from hudilab.paths import rewrite_scheme
from hudilab.settings import Settings
from hudilab.settings_file import read_options
from hudilab_cli.submit import jar_groups
from hudilab_jobs import ENDLESS_WITHOUT, JOBS, PIPELINE_JOBS
from hudilab_jobs.groups import (
    PREFIX,
    RUN_GROUP,
    Client,
    FilePipeline,
    RunOptions,
    TablePipeline,
    TopicPipeline,
)
from hudilab_jobs.kafka.connection import Access, kafka_groups
from hudilab_jobs.settings import find_groups, pipelines, run_options
from hudilab_spark.jars import read_lock

IMAGE_ROOT = "/opt/hudilab"  # the lab's folder in its image
CREDENTIALS = "spark.hadoop.fs.s3a.aws.credentials.provider"
_CLUSTER = r"arn:aws[a-z-]*:kafka:[a-z0-9-]+:\d{12}:cluster/[\w-]+/[\w-]+"
_BUCKET = r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/([\w./-]*[\w-])/?"
_KUBERNETES = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_IMAGE = r"[\w.-]+(:\d+)?(/[\w.-]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?"
# The pattern of each option of the command line, and its description for errors.
_OPTIONS = {
    "application_id": ("[0-9a-z]{1,64}", "an application ID (digits and lowercase letters)"),
    "role_arn": (
        r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+",
        "arn:aws:iam::<account>:role/<name>",
    ),
    "to": (_BUCKET, "s3://<bucket>/<prefix>"),
    "python": (
        r"(s3:/)?/[\w./-]+",
        "an absolute path in the image, or s3://<bucket>/<name>.tar.gz",
    ),
    "account": (r"\d{12}", "an account ID of twelve digits"),
    "cluster_arn": (f"({_CLUSTER})?", "arn:aws:kafka:<region>:<account>:cluster/<name>/<id>"),
    "image": (_IMAGE, "an image's name, such as hudilab:0.1.0"),
    "namespace": (_KUBERNETES, "a name of Kubernetes (lowercase letters, digits and -)"),
    "service_account": (_KUBERNETES, "a name of Kubernetes (lowercase letters, digits and -)"),
    "executors": ("[1-9][0-9]*", "a number of 1 or more"),
}


class Job(NamedTuple):
    """The job of the settings, its command line, and the value of each of its options."""

    run: RunOptions
    arguments: list[str]
    options: Mapping[str, Any]

    @property
    def endless(self) -> bool:
        """Whether it runs until it is stopped."""
        ending = ENDLESS_WITHOUT.get(self.run.job)
        return ending is not None and not any(self.options[option] for option in ending)

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
        if (name := options["name"]).endswith(".json"):
            raise BundleError(
                f"arguments={run.arguments!r} in {settings.origin(RUN_GROUP, 'arguments')} name a "
                "file, which a deployed job would not find",
                f"move it to {settings.conf_dir / PIPELINES}, and name it without .json",
            )
        find_groups(settings, name)
    return Job(run, arguments, options)


def job_run(
    settings: Settings, *, application_id: str, role_arn: str, to: str, python: str
) -> dict[str, Any]:
    """Return the StartJobRun request of EMR Serverless: conf/deploy/emr-job-run.json.

    Args:
        to: where the bundle is: s3://bucket/prefix.
        python: a path in the application's image, or the s3:// URL of an environment as .tar.gz.

    Raises:
        BundleError: arguments are malformed (all are named at once) or in another AWS partition, or
            the settings are wrong for AWS.
        ConfigError: the settings do not have the group `spark.run.options`.
    """
    _check_options(application_id=application_id, role_arn=role_arn, to=to, python=python)
    _partition(settings, role_arn=role_arn)
    _warehouse(settings)
    job, root = chosen_job(settings), to.rstrip("/")
    archives = f"{root}/hudilab-bundle.zip#bundle"
    if python.startswith("s3://"):
        archives = f"{archives},{python}#environment"
        python = "./environment/bin/python"
    request = _render(
        settings,
        "emr-job-run.json",
        application_id=application_id,
        role_arn=role_arn,
        to=root,
        job=job.run.job,
        mode="STREAMING" if job.endless else "BATCH",
        script=job.run.python,
        words=[job.run.job, *job.arguments],
        jarfile=job.run.jarfile,
        archives=archives,
        python=python,
    )
    if not job.endless:  # an endless job resumes from its checkpoint
        del request["retryPolicy"]
    (spark,) = request["configurationOverrides"]["applicationConfiguration"]
    spark["properties"] = spark_properties(settings) | spark["properties"]
    return request


def permissions(
    settings: Settings, *, account: str, to: str, cluster_arn: str = ""
) -> dict[str, Any]:
    """Return the policy of the job's role: the statements of conf/deploy/iam-policy.json it needs.

    The role gets the warehouse, bundle, logs, and what the job reads: its topics on MSK, or the
    folder or table on S3 of a pipeline.

    Raises:
        BundleError: arguments are malformed (all are named at once) or in another AWS partition, or
            the settings are wrong for AWS.
    """
    _check_options(account=account, to=to, cluster_arn=cluster_arn)
    aws = _partition(settings, cluster_arn=cluster_arn)
    bucket, prefix = _warehouse(settings)
    job = chosen_job(settings)
    topics = _topics(settings, job, cluster_arn) if cluster_arn else {}
    source = _source(settings, job, bucket, prefix)
    policy = _render(
        settings,
        "iam-policy.json",
        aws=aws,
        bucket=bucket,
        prefix=prefix,
        bundle=to.removeprefix("s3://").rstrip("/"),
        region=settings.aws_region,
        account=account,
        **topics,
        **source,
    )
    statements = {statement["Sid"]: statement for statement in policy["Statement"]}
    if "ConnectToCluster" in statements and "WriteTopics" not in statements:
        statements["ConnectToCluster"]["Action"].remove("kafka-cluster:WriteDataIdempotently")
    if source and not source["source_prefix"]:  # the source is a whole bucket
        del statements["ListSource"]["Condition"]
    return policy


def trust(settings: Settings, *, account: str) -> dict[str, Any]:
    """Return the role's trust policy: EMR Serverless, for this account's applications only."""
    _check_options(account=account)
    return _render(settings, "iam-trust.json", account=account)


def application(
    settings: Settings, *, image: str, namespace: str, service_account: str, executors: int
) -> dict[str, Any]:
    """Return the SparkApplication for the Spark Operator: conf/deploy/spark-application.json.

    Source: sparkoperator.k8s.io/v1beta2; Spark 3.5, "Running Spark on Kubernetes".

    Args:
        service_account: of the driver, which starts executors; on AWS it gives both their role.

    Raises:
        BundleError: arguments are malformed; all are named at once.
        ConfigError: the settings do not have the group `spark.run.options`.
    """
    _check_options(
        image=image,
        namespace=namespace,
        service_account=service_account,
        executors=str(executors),
    )
    job = chosen_job(settings)
    lock = read_lock(settings.project / "jars" / "jars.lock")
    groups = [*jar_groups(settings), "s3"]
    jars = [f"{IMAGE_ROOT}/jars/{group}/{jar.file}" for group in groups for jar in lock[group]]
    manifest = _render(
        settings,
        "spark-application.json",
        name=job.name,
        namespace=namespace,
        image=image,
        spark_version=version("pyspark"),
        job=job.run.job,
        arguments=job.arguments,
        class_path=":".join(jars),
        # Its chain includes the web identity that Kubernetes gives to a service account.
        credentials=read_options(settings.conf_file("spark-defaults.conf"))[CREDENTIALS],
        restart="Always" if job.endless else "OnFailure",
        runtime=settings.runtime,
        service_account=service_account,
        executors=executors,
    )
    spec = manifest["spec"]
    if job.endless:
        del spec["restartPolicy"]["onFailureRetries"]
    spec["sparkConf"] = spark_properties(settings) | spec["sparkConf"]
    return manifest


def spark_properties(settings: Settings) -> dict[str, str]:
    """Return the Spark settings of a platform that chooses master, hosts and credentials."""
    properties = read_options(settings.conf_file("spark-defaults.conf"))
    added = settings.conf_file("aws/spark-defaults.conf")
    properties |= read_options(added) if added.is_file() else {}
    # The platform has its own master, hosts, credentials and console.
    ours = ("spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.ui.")
    return {
        key: value
        for key, value in properties.items()
        if key != CREDENTIALS and not key.startswith(ours)
    }


def _render(settings: Settings, template_file: str, **values: Any) -> dict[str, Any]:
    """Return a template of conf/deploy with its placeholders replaced.

    A text that is only a placeholder becomes the value itself, such as a list or a number. A list
    drops the items that have a placeholder without a value.
    """
    file = settings.conf_file(f"deploy/{template_file}")

    def fill(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: fill(value) for key, value in node.items()}
        if isinstance(node, list):
            return [fill(item) for item in node if _names(item) <= values.keys()]
        if isinstance(node, str):
            template = Template(node)
            names = template.get_identifiers()
            return values[names[0]] if node == f"${''.join(names)}" else template.substitute(values)
        return node

    return dict(fill(json.loads(file.read_text("utf-8"))))


def _names(node: Any) -> set[str]:
    return set(Template(json.dumps(node)).get_identifiers())


def _topics(settings: Settings, job: Job, cluster: str) -> dict[str, str]:
    """Return the policy's values for the topics that the job reads and writes."""
    group, reader = _reader(settings, job)
    if not Access(reader.bootstrap_servers).iam:
        file = settings.origin(group, "bootstrap.servers")
        raise BundleError(
            f"bootstrap.servers in {file} are not a cluster's IAM servers, which use port 9098",
            "fix them, or leave out --cluster-arn",
        )
    values = {
        "cluster": cluster,
        "topics": cluster.replace(":cluster/", ":topic/"),
        "groups": cluster.replace(":cluster/", ":group/"),
        "topic_read": reader.topic_name,
    }
    if job.run.job == "stock_prices" and (writer := kafka_groups(settings)[1]):
        values["topic_written"] = writer.topic_name
        values["topic_dead"] = writer.dead_letter_topic_name
    return values


def _reader(settings: Settings, job: Job) -> tuple[str, Client]:
    """Return the group that names the topic the job reads, and its settings."""
    if job.run.job == "stock_prices":
        consumer, producer = kafka_groups(settings)
        if consumer is None or producer is None:
            raise BundleError(
                f"--cluster-arn is given, but {settings.source} has no Kafka groups",
                "add consumer.config.0 and producer.config.0",
            )
        return "consumer.config.0", consumer
    pipeline = pipelines(settings).get(job.options.get("name", ""))
    if isinstance(pipeline, TopicPipeline):
        return f"{PREFIX}{job.options['name']}", pipeline
    raise BundleError(
        f"--cluster-arn is given, but job {job.name!r} in {settings.origin(RUN_GROUP, 'job')} "
        "uses no topic",
        "leave out --cluster-arn",
    )


def _source(settings: Settings, job: Job, bucket: str, prefix: str) -> dict[str, str]:
    """Return the policy's values for a pipeline's folder or table, if outside of the warehouse."""
    group = pipelines(settings).get(job.options.get("name", ""))
    if not isinstance(group, FilePipeline | TablePipeline) or not group.uri.startswith("s3a://"):
        return {}
    source = group.uri.removeprefix("s3a://").rstrip("/")
    if f"{source}/".startswith(f"{bucket}/{prefix}/"):
        return {}
    source_bucket, _, source_prefix = source.partition("/")
    return {"source": source, "source_bucket": source_bucket, "source_prefix": source_prefix}


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
        if arn and (other := arn.split(":")[1]) != partition:
            raise BundleError(
                f"{_flag(name)} is in AWS partition {other}, but "
                f"aws.region={settings.aws_region!r} in {file} is in {partition}",
                "fix one of the two",
            )
    return partition


def _warehouse(settings: Settings) -> tuple[str, str]:
    """Return bucket and prefix; a policy for a whole bucket would not be least privilege."""
    uri = rewrite_scheme(settings.warehouse_path, settings.home).replace("s3a://", "s3://")
    location = re.fullmatch(_BUCKET, uri, re.ASCII)
    if location is None:
        file = settings.origin("HudiTable0", "warehouse.path")
        raise BundleError(
            f"warehouse.path in {file} is not s3://<bucket>/<prefix>",
            "set it to one, so that the role gets access to the prefix and not to the whole bucket",
        )
    return location[1], location[2]


def _check_options(**options: str) -> None:
    """Raise BundleError that names each malformed option."""
    problems = [
        f"{_flag(name)} is not {shape}"
        for name, value in options.items()
        for pattern, shape in [_OPTIONS[name]]
        if not re.fullmatch(pattern, value, re.ASCII)
    ]
    if problems:
        raise BundleError("; ".join(problems), "fix the command line")


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"
