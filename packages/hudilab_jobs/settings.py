"""Load and check the settings of jobs, and find pipelines by name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from hudilab import settings as lab
from hudilab.errors import ConfigError, KafkaError
from hudilab.groups import FILE, PIPELINES
from hudilab.paths import QUARANTINE
from hudilab.settings import Settings
from hudilab_jobs.groups import (
    CONSUMER,
    JOBS,
    PREFIX,
    PRODUCER,
    RUN_GROUP,
    Consumer,
    Pipeline,
    Producer,
    RunOptions,
    Tables,
    TopicPipeline,
)
from hudilab_jobs.kafka.connection import kafka_groups


def load_settings(
    runtime: str = "", env: Mapping[str, str] | None = None, pipeline: Path | None = None
) -> Settings:
    """Load the settings like `hudilab.settings.load_settings`, with the groups of jobs.

    Args:
        pipeline: A further file with the keys of a pipeline.

    Raises:
        ConfigError: lists every problem of the environment and the files.
    """
    settings = lab.load_settings(runtime, env, owner=JOBS, file=pipeline)
    consumer, producer = kafka_groups(settings, env)
    topics = {CONSUMER: consumer, PRODUCER: producer}
    groups = {name: group for name, group in topics.items() if group is not None}
    return replace(settings, groups={**settings.groups, **groups})


def topics(settings: Settings) -> tuple[Consumer, Producer]:
    """Return the groups of the topic to read and the topic to write.

    Raises:
        KafkaError: the settings lack one of the groups.
    """
    consumer, producer = kafka_groups(settings)
    if consumer is None or producer is None:
        raise KafkaError(
            f"{FILE} has no Kafka groups", "add consumer.config.0 and producer.config.0"
        )
    return consumer, producer


def pipelines(settings: Settings) -> dict[str, Pipeline]:
    """Return the groups pipeline.NAME and files pipelines/NAME.json, by NAME."""
    return {
        name.removeprefix(PREFIX): group
        for name, group in settings.groups.items()
        if isinstance(group, Pipeline)
    }


def together(settings: Settings) -> dict[str, tuple[str, ...]]:
    """Return the names of the pipelines that run in one query, by the name of their group."""
    return {
        name.removeprefix(PREFIX): group.names
        for name, group in settings.groups.items()
        if isinstance(group, Tables)
    }


def load_pipeline(name: str) -> tuple[Settings, str]:
    """Return the settings with a pipeline, and its name; `name` may be its file, NAME.json.

    Raises:
        ConfigError: as `load_settings`.
    """
    if not name.endswith(".json"):
        return load_settings(), name
    file = Path(name).absolute()
    return load_settings(pipeline=file), file.stem


def find_group(settings: Settings, name: str) -> Pipeline:
    """Return the settings' pipeline NAME; raise ConfigError if there is none."""
    own = pipelines(settings)
    if name in own:
        return own[name]
    known = [*own, *together(settings)]
    near = get_close_matches(name, known, 1)
    raise ConfigError(
        f"there is no group {PREFIX + name!r} in {settings.source}, and no file "
        f"{settings.conf_dir / PIPELINES / name}.json (pipelines: {', '.join(known) or 'none'})"
        + "".join(f" (did you mean {name!r}?)" for name in near),
        "create that file with the keys source.format, source.path, table.name, record.key and "
        "ordering",
    )


def find_groups(settings: Settings, name: str) -> dict[str, Pipeline]:
    """Return the pipelines that NAME runs, by name: itself, or those that its key `tables` lists.

    Raises:
        ConfigError: There is no such pipeline, or one query cannot run them all.
    """
    joint = together(settings)
    if name not in joint:
        return {name: find_group(settings, name)}
    groups = {own: find_group(settings, own) for own in joint[name]}
    file = settings.origin(PREFIX + name, "tables")
    place = f"{file}: group {PREFIX + name!r}, key 'tables'"
    writers: dict[str, str] = {}
    for own, group in groups.items():
        if not isinstance(group, TopicPipeline):
            raise ConfigError(
                f"{place}: {own} reads {group.source}, but one query for several tables reads "
                "topics",
                f"remove it, and run it separately: hudilab stream {own}",
            )
        if (first := writers.setdefault(group.table_name, own)) != own:
            raise ConfigError(
                f"{place}: {first} and {own} both write table {group.table_name}",
                "give each pipeline its own table.name",
            )
    return groups


def checkpoint_of(settings: Settings, name: str, run_id: str = "") -> str:
    """Return the checkpoint of the query that runs one or several pipelines."""
    if name in together(settings):  # a name that differs from every table's checkpoint
        return settings.locate(name, run_id=run_id).checkpoint_of("tables")
    return settings.locate(find_group(settings, name).table_name, run_id=run_id).checkpoint


def path_of(settings: Settings, table: str, command: str, run_id: str = "") -> str:
    """Return the URI of a pipeline's table if `table` is a pipeline's name, else `table`.

    For some commands, NAME_quarantine is the quarantine of pipeline NAME.

    Raises:
        ConfigError: The name is unknown or also a table's folder, or a path comes with `run_id`.
    """
    folder = Path(table)
    own = pipelines(settings)
    group = own.get(table)
    of_quarantine = group is None and command in ("inspect", "tidy")
    if of_quarantine and table.endswith(QUARANTINE):
        group = own.get(table.removesuffix(QUARANTINE))
    if group is not None and (folder / ".hoodie").is_dir():
        raise ConfigError(
            f"{table!r} is a pipeline, and also a table's folder in {Path.cwd()}",
            f"name the folder as ./{table}, or run this in another folder: "
            f"hudilab {command} {table}",
        )
    if group is not None:
        location = settings.locate(group.table_name, run_id=run_id)
        return location.quarantine if of_quarantine else location.table
    is_name = re.fullmatch(r"[\w.-]+", table) and not os.path.lexists(folder)
    if is_name or run_id:
        names = ", ".join(own) or "none"
        place = f" and no folder {folder.absolute()}" if is_name else ", so it has no --run-id"
        raise ConfigError(
            f"there is no pipeline {table!r}{place} (pipelines: {names})",
            f"name a pipeline or a table's folder: hudilab {command} TABLE",
        )
    return table


def find_table(table: str, command: str, run_id: str = "") -> tuple[Settings, str]:
    """Return the settings and the URI of a table.

    Args:
        table: The name or the file NAME.json of a pipeline, or an argument of `path_of`.

    Raises:
        ConfigError: As `path_of`, or the file describes no pipeline.
    """
    if not table.endswith(".json") or "://" in table or Path(table).is_dir():
        settings = load_settings()
        return settings, path_of(settings, table, command, run_id)
    settings, own = load_pipeline(table)
    return settings, settings.locate(find_group(settings, own).table_name, run_id=run_id).table


def run_options(settings: Settings, otherwise: str = "") -> RunOptions:
    """Return the settings' group spark.run.options; `otherwise` is added to the error's remedy.

    Raises:
        ConfigError: the settings do not have the group.
    """
    run = settings.group(RUN_GROUP, RunOptions)
    if run is None:
        raise ConfigError(
            f"group {RUN_GROUP!r} is missing from {settings.source}",
            f"add it with the keys python, jarfile and job{otherwise}",
        )
    return run
