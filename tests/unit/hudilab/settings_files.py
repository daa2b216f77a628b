"""Settings files for tests: good groups, files written from them, and what is said about others."""

from __future__ import annotations

import json
import shutil
import traceback
from pathlib import Path
from typing import Any

import pytest
from cases import read_cases

from hudilab.errors import ConfigError
from hudilab.settings import Settings
from hudilab_jobs.settings import load_settings

ROOT = Path(__file__).resolve().parents[3]
SECRET = "wJalrXUtnFEMI/K7MDENG"
CASES = read_cases(str(Path(__file__).with_name("test_settings.py")))
GROUPS: dict[str, dict[str, Any]] = CASES["good"]
GOOD, CONSUMER, PRODUCER, RUN, _METASTORE = GROUPS.values()
KEYS = "catalog.name, warehouse.path, database.name, table.name, aws.region"
REMEDY = "; fix the file"


def group(name: Any = "HudiTable0", properties: Any = None) -> dict[str, Any]:
    return {"PropertyGroupId": name, "PropertyMap": GOOD if properties is None else properties}


def write(folder: Path, content: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "application_properties.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return file


def own_pipeline(home: Path, described: dict[str, str]) -> dict[str, str]:
    """Write the group pipeline.own into a copy of the settings; return a job's environment."""
    conf = shutil.copytree(ROOT / "conf", home / "conf")
    write(conf, [group(), group("pipeline.own", described)])
    env = {"HUDILAB_HOME": str(home), "HUDILAB_CONF": str(conf)}
    return env | {"RUNTIME_ENV": "", "IS_LOCAL": ""}


def load(folder: Path, runtime: str = "", **env: str) -> Settings:
    return load_settings(runtime, {"HUDILAB_CONF": str(folder), **env})


def refusal(folder: Path, runtime: str = "", **env: str) -> str:
    """The one-line text; neither it nor the trace behind it may hold the secret."""
    with pytest.raises(ConfigError) as caught:
        load(folder, runtime, **env)
    text = str(caught.value)
    assert "\n" not in text
    trace = "".join(traceback.format_exception(caught.value))
    assert SECRET not in trace
    assert SECRET.replace("/", "") not in trace
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return text


def file_refusal(folder: Path, content: Any) -> str:
    """What is said about a file after its name, with the remedy taken off."""
    file = write(folder, content)
    text = refusal(folder)
    assert text.startswith(f"{file}: ")
    assert text.endswith(REMEDY)
    return text.removeprefix(f"{file}: ").removesuffix(REMEDY)


def kafka_entries(tmp_path: Path, consumer: Any = CONSUMER, producer: Any = PRODUCER) -> list[Any]:
    return [
        group(),
        group("consumer.config.0", consumer),
        group("producer.config.0", producer),
    ]
