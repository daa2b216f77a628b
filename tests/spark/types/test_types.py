"""Every type and value of Spark comes back to the bit from a table of a ledger, or is refused.

What is found makes docs/types.md; `--types-to docs/types.md` rewrites it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.ml.functions import array_to_vector
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from spark.types.page import PAGE, page
from spark.types.tables import FOREIGN, READERS, SPECS, Cell, cells, write
from spark.types.values import COLUMNS

from hudilab.errors import StreamError
from hudilab.paths import local_path, locate

pytestmark = pytest.mark.deep


class Refusal(NamedTuple):
    """A type that no table stores: as the page names it, a value, and the remedy."""

    kind: str
    sql: str
    remedy: str


REFUSALS = [
    Refusal(*fields)
    for fields in json.loads(Path(__file__).with_name("refused.json").read_text("utf-8"))
]


@pytest.fixture(scope="module")
def all_cells(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Cell]:
    return list(cells(spark, tmp_path_factory.mktemp("types")))


@pytest.mark.parametrize("reader", [name for name in READERS if name not in FOREIGN])
def test_spark_reads_each_value_as_it_was_written(all_cells: list[Cell], reader: str) -> None:
    read = [cell for cell in all_cells if cell.reader == reader]
    assert [cell for cell in read if cell.verdict != "right"] == []
    # Each value of each column, in each state of each table.
    states = {cell.state for cell in read}
    assert len(states) == 24
    assert len(read) == len(states) * sum(len(column.values) for column in COLUMNS)


def is_foreign_limit(cell: Cell) -> bool:
    """Whether another engine does not read the table, as docs/types.md says."""
    if cell.reader == "DuckDB" or cell.row != "timestamp":
        return cell.row in (["string, not UTF-8"] + ["timestamp_ntz"] * (cell.reader == "hudi-rs"))
    merged = "compaction" in cell.state or "clustering" in cell.state
    logs = cell.state.startswith("MERGE_ON_READ, upsert") and not merged
    return logs and cell.shape != "column"


def test_other_engines_read_it_too_or_not_at_all(all_cells: list[Cell]) -> None:
    read = [cell for cell in all_cells if cell.reader in FOREIGN]
    assert {cell.verdict for cell in read} == {"right", "table not read"}
    assert [cell for cell in read if (cell.verdict != "right") != is_foreign_limit(cell)] == []


def refused(spark: SparkSession, refusal: Refusal, home: Path) -> int:
    """In how many tables the type is refused: in all, before anything is written."""
    for number, spec in enumerate(SPECS):
        location = locate("warehouse", "lab", f"t{number}", is_local=True, home=home)
        rows = spark.sql(f"SELECT 1L AS id, 1 AS moment, {refusal.sql} AS v")
        if refusal.kind.startswith("vector"):
            rows = rows.withColumn("v", array_to_vector(F.col("v")))
        with pytest.raises(StreamError) as caught:
            write(spark, spec, location, [rows])
        text = str(caught.value)
        assert f"{location.table} cannot store the batch, nothing was written: column v" in text
        assert refusal.remedy in text
        assert not Path(str(local_path(location.table))).exists()
    return len(SPECS)


def test_the_page_says_what_is_found(
    spark: SparkSession, all_cells: list[Cell], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    refusals = [
        (refusal.kind, refusal.remedy, refused(spark, refusal, tmp_path / str(number)))
        for number, refusal in enumerate(REFUSALS)
    ]
    made = page(all_cells, refusals)
    if file := request.config.getoption("--types-to"):
        file.write_text(made, "utf-8")
    assert PAGE.read_text("utf-8") == made, "rewrite it with --types-to, and review the diff"


def test_a_text_type_of_fixed_length_is_a_text(spark: SparkSession) -> None:
    """CHAR and VARCHAR never reach a ledger."""
    rows = spark.sql("SELECT CAST('a' AS CHAR(3)) AS c, CAST('abcd' AS VARCHAR(3)) AS v")
    assert [kind for _, kind in rows.dtypes] == ["string", "string"]
