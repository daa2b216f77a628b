"""`hudilab sql` finds the warehouse's tables without Spark, and refuses what it cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import read_cases
from unit.hudilab.settings_files import group, load, write

from hudilab_cli.sql_command import command, statements

CASES = read_cases(__file__)


def test_each_table_of_the_warehouse_or_of_a_run_has_its_name(tmp_path: Path) -> None:
    write(tmp_path / "conf", [group()])
    settings = load(tmp_path / "conf", HUDILAB_HOME=str(tmp_path))
    last = ["CREATE DATABASE IF NOT EXISTS `lab`", "USE `lab`"]
    assert statements(settings) == last  # before the first table
    warehouse = tmp_path / "warehouse"
    for table in ("lab/orders", "shop/customers", "run-a/lab/orders", "deep/er/than/that", "flat"):
        (warehouse / table / ".hoodie").mkdir(parents=True)
        (warehouse / table / ".hoodie" / "hoodie.properties").touch()
    (warehouse / "lab" / "no_table").mkdir()
    for run_id, root, names in (
        ("", warehouse, ["lab.orders", "shop.customers"]),
        ("a", warehouse / "run-a", ["lab.orders"]),
    ):
        expected = []
        for database, table in (name.split(".") for name in names):
            expected += [
                f"CREATE DATABASE IF NOT EXISTS `{database}`",
                f"CREATE TABLE IF NOT EXISTS `{database}`.`{table}` USING hudi "
                f"LOCATION 'file://{root}/{database}/{table}'",
            ]
        assert statements(settings, run_id) == expected + last


@pytest.mark.parametrize(
    ("words", "text"),
    CASES["bad arguments"],
)
def test_a_bad_argument(
    words: dict[str, object],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("RUNTIME_ENV", raising=False)
    with pytest.raises(SystemExit):
        command(**words)  # type: ignore[arg-type]
    assert capsys.readouterr().err == f"hudilab: {text}\n"
