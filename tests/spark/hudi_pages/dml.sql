-- INSERT with its operations, MERGE with each clause, UPDATE and DELETE, on both table types.
CREATE TABLE berths (berth INT, ship STRING, metres DOUBLE, seen BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'berth', orderingFields = 'seen') LOCATION 'file://{home}/berths'
;
INSERT INTO berths VALUES (1, 'Alma', 41.5, 100), (2, 'Bora', 60.0, 100)
;
INSERT INTO berths (berth, ship, seen) VALUES (3, 'Cyra', 100)
;
INSERT INTO berths (seen, metres, ship, berth) VALUES (100, 12.0, 'Dune', 4)
;
SELECT berth, ship, metres, seen FROM berths
;
INSERT INTO berths VALUES (1, 'Alma again', 42.0, 101)
;
SELECT berth, ship FROM berths
;
SET hoodie.spark.sql.insert.into.operation = upsert
;
INSERT INTO berths VALUES (2, 'Bora two', 61.0, 102)
;
SELECT berth, ship FROM berths
;
SET hoodie.spark.sql.insert.into.operation = bulk_insert
;
INSERT INTO berths VALUES (5, 'Echo', 30.0, 100), (10, 'Elba', 30.0, 100)
;
SELECT berth, ship FROM berths WHERE berth IN (5, 10)
;
SET hoodie.spark.sql.insert.into.operation = insert
;
SET hoodie.datasource.insert.dup.policy = drop
;
INSERT INTO berths VALUES (2, 'Bora dropped', 1.0, 900), (6, 'Fern', 22.0, 900)
;
SELECT berth, ship FROM berths
;
SET hoodie.datasource.insert.dup.policy = fail
;
INSERT INTO berths VALUES (3, 'Cyra refused', 1.0, 900)
;
RESET
;
UPDATE berths SET metres = metres + 1, ship = upper(ship) WHERE berth IN (2, 3)
;
UPDATE berths SET seen = 1, metres = 0 WHERE berth = 4
;
SELECT berth, ship, metres, seen FROM berths
;
DELETE FROM berths WHERE berth = 6 OR ship LIKE 'E%'
;
SELECT berth, ship FROM berths
;
CREATE TABLE calls (berth INT, ship STRING, metres DOUBLE, seen BIGINT, leaves BOOLEAN) USING parquet LOCATION 'file://{home}/calls'
;
INSERT INTO calls VALUES (1, 'Alma third', 43.0, 500, false), (2, 'gone', 0.0, 500, true), (7, 'Gull', 15.0, 500, false), (8, 'never', 0.0, 500, true)
;
MERGE INTO berths t USING calls s ON t.berth = s.berth WHEN MATCHED AND s.leaves THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND NOT s.leaves THEN INSERT *
;
SELECT berth, ship, metres, seen FROM berths
;
MERGE INTO berths t USING (SELECT 7 AS number, 'Gull two' AS name, 600 AS moment) s ON t.berth = s.number WHEN MATCHED THEN UPDATE SET ship = s.name, seen = s.moment
;
MERGE INTO berths t USING (SELECT 9 AS number, 'Heron' AS name) s ON t.berth = s.number WHEN NOT MATCHED THEN INSERT (berth, ship, metres, seen) VALUES (s.number, s.name, 5.5, 1)
;
MERGE INTO berths t USING (SELECT 9 AS berth, 'late' AS ship, 0.5D AS metres, 0L AS seen) s ON t.berth = s.berth WHEN MATCHED THEN UPDATE SET *
;
MERGE INTO berths t USING (SELECT 9 AS berth) s ON t.berth = s.berth WHEN NOT MATCHED BY SOURCE THEN DELETE
;
MERGE INTO berths t USING (SELECT 'Heron' AS ship) s ON t.ship = s.ship WHEN MATCHED THEN UPDATE SET metres = 9.0
;
SELECT berth, ship, metres, seen FROM berths
;
CREATE TABLE berths_log (berth INT, ship STRING, metres DOUBLE, seen BIGINT) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'berth', orderingFields = 'seen') LOCATION 'file://{home}/berths_log'
;
INSERT INTO berths_log SELECT berth, ship, metres, seen FROM berths
;
MERGE INTO berths_log t USING calls s ON t.berth = s.berth WHEN MATCHED AND s.leaves THEN DELETE WHEN MATCHED THEN UPDATE SET t.metres = s.metres * 2, t.seen = s.seen + 1 WHEN NOT MATCHED THEN INSERT (berth, ship, metres, seen) VALUES (s.berth, s.ship, s.metres, s.seen)
;
MERGE INTO berths_log t USING (SELECT 9 AS berth, 'Heron' AS ship, 8.5D AS metres, 0L AS seen) s ON t.berth = s.berth WHEN MATCHED THEN DELETE
;
UPDATE berths_log SET ship = 'renamed', seen = seen + 1 WHERE metres > 40
;
UPDATE berths_log SET ship = 'from the past', seen = 0 WHERE berth = 7
;
DELETE FROM berths_log WHERE berth = 4
;
SELECT berth, ship, metres, seen FROM berths_log
;
SELECT berth, ship FROM berths WHERE berth = 1
;
DELETE FROM berths WHERE berth = 1
;
SELECT berth, ship FROM berths WHERE berth = 1
;
CREATE TABLE tides (station STRING, day STRING, level DOUBLE) USING hudi TBLPROPERTIES (primaryKey = 'station') PARTITIONED BY (day) LOCATION 'file://{home}/tides'
;
INSERT INTO tides PARTITION (day = '2011-03-01') SELECT 'north', 1.25
;
INSERT INTO tides PARTITION (day) SELECT 'south', 0.75, '2011-03-02'
;
INSERT INTO tides VALUES ('north', 1.5, '2011-03-02')
;
INSERT OVERWRITE tides PARTITION (day) SELECT 'west', 2.0, '2011-03-02'
;
SELECT station, level, day FROM tides
;
SET hoodie.datasource.overwrite.mode = dynamic
;
INSERT OVERWRITE TABLE tides SELECT 'east', 2.5, '2011-03-03'
;
SELECT station, level, day FROM tides
;
SET hoodie.datasource.overwrite.mode = static
;
INSERT OVERWRITE TABLE tides SELECT 'bay', 3.5, '2011-03-04'
;
SELECT station, level, day FROM tides
;
RESET
;
CREATE TABLE notes (line STRING, page INT) USING hudi LOCATION 'file://{home}/notes'
;
INSERT INTO notes VALUES ('first', 1), ('first', 1), ('second', 2)
;
UPDATE notes SET page = 3 WHERE line = 'first'
;
DELETE FROM notes WHERE page = 2
;
MERGE INTO notes t USING (SELECT 'first' AS line, 4 AS page) s ON t.line = s.line WHEN MATCHED THEN UPDATE SET page = s.page WHEN NOT MATCHED THEN INSERT *
;
SELECT line, page FROM notes
;
