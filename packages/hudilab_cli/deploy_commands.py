"""The commands `hudilab deploy ...`: print JSON for the AWS CLI, or for kubectl."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

deploy = typer.Typer(
    help="Print JSON for an EMR Serverless job run and its role, or for Kubernetes.",
    no_args_is_help=True,
)
To = Annotated[str, typer.Option(help="Location of the bundle: s3://bucket/prefix.")]
Account = Annotated[str, typer.Option(help="AWS account ID, twelve digits.")]


@deploy.command()
def job(
    application_id: Annotated[str, typer.Option(help="ID of the EMR Serverless application.")],
    role_arn: Annotated[str, typer.Option(help="ARN of the job's role.")],
    to: To,
    python: Annotated[
        str, typer.Option(help="The bundle's Python: a path in the image, or s3://.../name.tar.gz.")
    ] = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}",
) -> None:
    """Print the StartJobRun request, built from the settings for AWS."""
    from hudilab_cli.deploy import job_run
    from hudilab_jobs.settings import load_settings

    request = job_run(
        load_settings("AWS"),
        application_id=application_id,
        role_arn=role_arn,
        to=to,
        python=python,
    )
    print(json.dumps(request, indent=2))


@deploy.command()
def permissions(
    account: Account,
    to: To,
    cluster_arn: Annotated[str, typer.Option(help="ARN of the MSK cluster, if any.")] = "",
) -> None:
    """Print the policy of the job's role: only what the job needs."""
    from hudilab_cli.deploy import permissions
    from hudilab_jobs.settings import load_settings

    policy = permissions(load_settings("AWS"), account=account, to=to, cluster_arn=cluster_arn)
    print(json.dumps(policy, indent=2))


@deploy.command()
def trust(account: Account) -> None:
    """Print the role's trust policy: EMR Serverless may assume it."""
    from hudilab_cli.deploy import trust
    from hudilab_jobs.settings import load_settings

    print(json.dumps(trust(load_settings("AWS"), account=account), indent=2))


@deploy.command()
def kubernetes(
    image: Annotated[str, typer.Option(help="The lab's image, as the cluster pulls it.")],
    namespace: Annotated[
        str, typer.Option(help="Namespace in which the application runs.")
    ] = "default",
    service_account: Annotated[
        str, typer.Option(help="Account of driver and executors; must be allowed to start pods.")
    ] = "spark-operator-spark",
    executors: Annotated[int, typer.Option(help="Number of executors, with two cores each.")] = 2,
    runtime: Annotated[str, typer.Option(help="Runtime whose settings the job uses.")] = "AWS",
) -> None:
    """Print a SparkApplication for the Spark Operator, for: kubectl apply -f FILE."""
    from hudilab_cli.deploy import application
    from hudilab_jobs.settings import load_settings

    manifest = application(
        load_settings(runtime),
        image=image,
        namespace=namespace,
        service_account=service_account,
        executors=executors,
    )
    print(json.dumps(manifest, indent=2))
