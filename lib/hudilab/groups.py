"""The groups of `application_properties.json`: the table's, and what others are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

FILE = "application_properties.json"
TABLE_GROUP = "HudiTable0"
# The only catalog in which Hudi's SQL works: Spark sets a delegate on the session catalog alone.
CATALOG = "spark_catalog"
PIPELINES = "pipelines"  # the folder of conf/ whose files hold the keys of a group each


def form(pattern: str, problem: str) -> AfterValidator:
    """Return a validator that rejects a text unless all of it matches; `problem` is the message."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value, re.DOTALL):
            raise PydanticCustomError("form", problem)
        return value

    return AfterValidator(check)


def key_of(field: str) -> str:
    """Return the key of a field."""
    return field.replace("_", ".")


def no_credentials(value: str) -> str:
    """Return a path or URI unchanged; raise PydanticCustomError if it contains credentials."""
    # No host or bucket contains ':' or '@'; a secret may contain '/', so '@' counts after one too.
    _, scheme, rest = value.partition("://")
    host = rest.split("/", 1)[0]
    if scheme:
        named = "@" in rest and (":" in host or "@" in host)
    else:
        named = bool(re.match(r"(?!file:)[^/]+:[^/]+@", value))
    if named:
        raise PydanticCustomError(
            "secret", "contains credentials, which belong in the AWS credential chain"
        )
    return value


Text = Annotated[str, Field(min_length=1), form(r"\S|\S.*\S", "has leading or trailing whitespace")]
Name = Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
PathText = Annotated[Text, AfterValidator(no_credentials)]


class Group(BaseModel):
    """The keys of a group; a field's key in the file is its name, with dots for underscores.

    Attributes:
        unused: Further keys, without effect here, each with what replaces it.
    """

    unused: ClassVar[Mapping[str, str]] = {}
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=key_of)

    def problems(self) -> Iterable[tuple[str, str]]:
        """Return keys with valid values that do not fit together, each with the problem."""
        return ()


@dataclass(frozen=True)
class Owner:
    """The groups of a package, for `load_settings`.

    Attributes:
        model: Returns the model of a group, by its name and keys; None if it is not the owner's.
        names: The groups' names, for a hint at one that is misspelled.
        unused: Further groups, without effect here, each with what replaces it.
        prefix: What a group's name begins with if its keys are a file pipelines/NAME.json of conf/.
        without_table: The groups that may be there without the table's.
    """

    model: Callable[[str, Mapping[str, Any]], type[Group] | None]
    names: tuple[str, ...]
    unused: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    without_table: tuple[str, ...] = ()


NO_OWNER = Owner(lambda name, properties: None, names=())


class TableGroup(Group):
    """Group HudiTable0: the table that the lessons and jobs write, and where it is.

    `catalog.name` can have any value: the tables' names are in Spark's own catalog.
    """

    catalog_name: Annotated[str, Field(min_length=1)]
    warehouse_path: PathText
    database_name: Name
    table_name: Name
    aws_region: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


# For settings with Kafka's groups and no HudiTable0: the table of the prices needs a warehouse.
DEFAULT_TABLE = {
    "catalog.name": CATALOG,
    "warehouse.path": "warehouse",
    "database.name": "lab",
    "table.name": "sensor_readings",
    "aws.region": "us-east-1",
}


class Entry(BaseModel):
    """An entry of the file's list: a group's name and its keys."""

    model_config = ConfigDict(strict=True, extra="forbid")
    name: str = Field(alias="PropertyGroupId", min_length=1)
    properties: dict[str, Any] = Field(alias="PropertyMap")


def keys_of(shape: type[BaseModel]) -> list[str]:
    """Return the keys of a group, as the file spells them."""
    return [field.alias or name for name, field in shape.model_fields.items()]
