"""The stream of lesson 21 equals its database, whatever is killed, and however often."""

from __future__ import annotations

import ast
import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import nbformat
import psutil
import pytest

from hudilab.settings import Settings
from hudilab_cli.servers.connect import find_connect, start_connect, stop_connect
from hudilab_cli.servers.connectors import register
from hudilab_cli.servers.database import start_database, stop_database
from hudilab_cli.servers.kafka import find_broker, start_broker, stop_broker
from hudilab_jobs.kafka import topics as kafka
from hudilab_jobs.settings import load_settings
from hudilab_lessons import capture
from hudilab_lessons.lesson import Lab
from hudilab_spark.session import open_session

pytestmark = [pytest.mark.deep, pytest.mark.kills]

LESSON = Path(__file__).resolve().parents[2] / "notebooks" / "21_database_changes.ipynb"
PARTS = ("CHANGES", "ROWS", *capture.FUNCTIONS)
TABLES = {"customers": "id INT, name STRING", "orders": "id INT, customer INT, channel STRING"}
KILLS = 5


def lesson_module(folder: Path) -> ModuleType:
    """Return the lesson's own functions as a module, each in its last form."""
    cells = nbformat.read(LESSON, as_version=4).cells
    parts: dict[str, str] = {}
    for text in [cell.source for cell in cells if cell.cell_type == "code"]:
        for node in ast.parse(text).body:
            names = [node.name] if isinstance(node, ast.FunctionDef) else []
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                names = [node.targets[0].id]
            parts |= {name: ast.get_source_segment(text, node) or "" for name in names}
    file = folder / "lesson_21.py"
    file.write_text("\n\n\n".join(parts[name] for name in PARTS) + "\n", "utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Shop:
    """A database, its connector and the lesson's stream."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        access, database = start_broker(settings).access(), start_database(settings)
        self.database = capture.reset(database, start_connect(settings), "shop")
        self.database.execute("CREATE TABLE customers (id int PRIMARY KEY, name text)")
        self.database.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, customer int, channel text)"
        )
        self.database.execute("INSERT INTO customers VALUES (1, 'Jack'), (2, 'Rose'), (3, 'Ada')")
        self.database.execute("INSERT INTO orders VALUES (1, 1, 'web')")
        topics = [f"shop.public.{table}" for table in TABLES]
        kafka.create_topics(access, dict.fromkeys(topics, 3))
        connector = {"name": "shop", "database.dbname": "shop"}
        register(settings, connector | {"table.include.list": "public[.].*"})
        self.lab = Lab(open_session(settings, "kills", ("core", "kafka")), settings)
        self.paths = {table: self.lab.location(table).table for table in ("changes", *TABLES)}
        own = {"subscribe": ",".join(topics), "startingOffsets": "earliest"}
        self.values = {
            "tables": TABLES,
            "paths": self.paths,
            "keys": {"changes": "table_name,key,lsn,op", "customers": "id", "orders": "id"},
            "options": {
                "hoodie.datasource.write.operation": "upsert",
                "hoodie.datasource.write.partitionpath.field": "",
                "hoodie.table.ordering.fields": "lsn",
            },
            "source": access.spark_options() | own,
            "checkpoint": self.lab.location("changes", afresh=False).checkpoint,
        }
        self.lesson = lesson_module(folder)
        vars(self.lesson).update(self.values, spark=self.lab.spark)

    def change(self, number: int) -> None:
        """Change rows of both tables in each way."""
        first = 1000 * number
        with self.database.transaction():
            for statement in (
                f"INSERT INTO orders SELECT {first} + n, n, 'web' FROM generate_series(0, 499) n",
                f"UPDATE orders SET channel = 'k{number}' WHERE id % 7 = {number % 7}",
                f"DELETE FROM orders WHERE id % 13 = {number % 13}",
                f"UPDATE customers SET id = id + 10 WHERE id % 3 = {number % 3}",
            ):
                self.database.execute(statement)

    def differing(self) -> int:
        """Return the number of rows that only the database or only Hudi has."""
        storage = self.lab.storage_options()
        counts = capture.compare(self.database, self.paths, storage)
        return int(counts[["missing", "extra"]].to_numpy().sum())

    def sync(self) -> int:
        """Run the stream up to the database's newest change; return the rows that differ."""
        capture.wait_until_sent(self.database, "shop")
        self.lesson.run_stream()
        return self.differing()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    home = tmp_path_factory.mktemp("it") / "o'brien jürgen"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HUDILAB_HOME", str(home))  # of the killed programs, too
        settings = load_settings()
        try:
            shop = Shop(settings, tmp_path_factory.mktemp("lesson"))
            assert shop.sync() == 0
            yield shop
            shop.lab.spark.stop()
        finally:
            for stop in (stop_connect, stop_database, stop_broker):
                stop(settings)


def test_the_connector_is_killed(shop: Shop) -> None:
    for number in range(1, KILLS + 1):
        shop.change(number)
        worker = find_connect(shop.settings)
        assert worker
        time.sleep(number / KILLS)  # another moment each time
        capture.kill(worker)
        shop.change(KILLS + number)
        start_connect(shop.settings)
        assert shop.sync() == 0, number


def test_the_broker_is_killed(shop: Shop) -> None:
    for number in range(2 * KILLS + 1, 3 * KILLS + 1):
        shop.change(number)
        broker = find_broker(shop.settings)
        assert broker
        time.sleep((number - 2 * KILLS) / KILLS)
        killed = psutil.Process(broker.pid)
        killed.kill()
        killed.wait()
        shop.change(KILLS + number)
        assert start_broker(shop.settings).address == broker.address
        assert shop.sync() == 0, number


def test_the_stream_is_killed(shop: Shop) -> None:
    for number in range(4 * KILLS + 1, 5 * KILLS + 1):
        shop.change(number)
        capture.wait_until_sent(shop.database, "shop")
        after = ("changes", "orders")[number % 2]
        capture.kill_stream(shop.lab, vars(shop.lesson), shop.paths[after])
        assert shop.sync() == 0, number
