"""The groups of the settings: what good ones become; test_settings.py has the bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.hudilab.settings_files import (
    CONSUMER,
    RUN,
    group,
    kafka_entries,
    load,
    write,
)

from hudilab.errors import ConfigError
from hudilab_jobs.groups import RUN_GROUP, RunOptions
from hudilab_jobs.kafka.connection import kafka_groups
from hudilab_jobs.settings import run_options

# --- how the bundle is run


def test_run_options(tmp_path: Path) -> None:
    properties = {key: value for key, value in RUN.items() if key != "arguments"}
    write(tmp_path, [group(), group("spark.run.options", properties)])
    assert load(tmp_path).group(RUN_GROUP, RunOptions) == RunOptions(**properties, arguments="")
    file = write(tmp_path, [group()])
    assert load(tmp_path).group(RUN_GROUP, RunOptions) is None
    with pytest.raises(ConfigError) as caught:
        run_options(load(tmp_path), ", or name a job")
    assert str(caught.value) == (
        f"group 'spark.run.options' is missing from {file}; "
        "add it with the keys python, jarfile and job, or name a job"
    )


# --- a metastore


# --- Kafka's groups


def test_the_view_of_a_topic_has_a_name_when_none_is_given(tmp_path: Path) -> None:
    unnamed = {key: value for key, value in CONSUMER.items() if key != "table.name"}
    for given, name in ((unnamed, "stocks_in"), ({**CONSUMER, "table.name": "x"}, "x")):
        write(tmp_path, kafka_entries(tmp_path, given))
        consumer = kafka_groups(load(tmp_path))[0]
        assert consumer is not None
        assert consumer.table_name == name
