-- MERGE with two clauses for matched rows, and with some of the columns, on both table types.
;
CREATE TABLE gates_cow (gate INT, keeper STRING, metres DOUBLE, at BIGINT) USING hudi TBLPROPERTIES (type = 'cow', primaryKey = 'gate', orderingFields = 'at') LOCATION 'file://{home}/gates_cow'
;
INSERT INTO gates_cow VALUES (1, 'Ada', 1.5, 10), (2, 'Bo', 2.5, 10), (3, 'Cem', 3.5, 10), (4, 'Dina', 4.5, 10)
;
MERGE INTO gates_cow t USING (SELECT 1 AS gate, 'Ada' AS keeper, 10.0D AS metres, 20L AS at, true AS gone UNION ALL SELECT 2, 'Bo', 20.0D, 20L, false) s ON t.gate = s.gate WHEN MATCHED AND s.gone THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
;
SELECT gate, keeper, metres, at FROM gates_cow
;
MERGE INTO gates_cow t USING (SELECT 3 AS gate, 30.0D AS metres, 20L AS at, false AS gone UNION ALL SELECT 4, 40.0D, 20L, true) s ON t.gate = s.gate WHEN MATCHED AND NOT s.gone THEN UPDATE SET metres = s.metres, at = s.at WHEN MATCHED AND s.gone THEN DELETE
;
SELECT gate, keeper, metres, at FROM gates_cow
;
UPDATE gates_cow SET metres = 99.0, at = 30 WHERE keeper = 'Cem'
;
SELECT gate, keeper, metres, at FROM gates_cow
;
MERGE INTO gates_cow t USING (SELECT 2 AS gate, 22.0D AS metres, 40L AS at) s ON t.gate = s.gate WHEN MATCHED THEN UPDATE SET metres = s.metres, at = s.at
;
SELECT gate, keeper, metres, at FROM gates_cow
;
CREATE TABLE gates_mor (gate INT, keeper STRING, metres DOUBLE, at BIGINT) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'gate', orderingFields = 'at') LOCATION 'file://{home}/gates_mor'
;
INSERT INTO gates_mor VALUES (1, 'Ada', 1.5, 10), (2, 'Bo', 2.5, 10), (3, 'Cem', 3.5, 10), (4, 'Dina', 4.5, 10)
;
MERGE INTO gates_mor t USING (SELECT 1 AS gate, 'Ada' AS keeper, 10.0D AS metres, 20L AS at, true AS gone UNION ALL SELECT 2, 'Bo', 20.0D, 20L, false) s ON t.gate = s.gate WHEN MATCHED AND s.gone THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
;
SELECT gate, keeper, metres, at FROM gates_mor
;
MERGE INTO gates_mor t USING (SELECT 3 AS gate, 30.0D AS metres, 20L AS at, false AS gone UNION ALL SELECT 4, 40.0D, 20L, true) s ON t.gate = s.gate WHEN MATCHED AND NOT s.gone THEN UPDATE SET metres = s.metres, at = s.at WHEN MATCHED AND s.gone THEN DELETE
;
SELECT gate, keeper, metres, at FROM gates_mor
;
UPDATE gates_mor SET metres = 99.0, at = 30 WHERE keeper = 'Cem'
;
SELECT gate, keeper, metres, at FROM gates_mor
;
MERGE INTO gates_mor t USING (SELECT 2 AS gate, 22.0D AS metres, 40L AS at) s ON t.gate = s.gate WHEN MATCHED THEN UPDATE SET metres = s.metres, at = s.at
;
SELECT gate, keeper, metres, at FROM gates_mor
;
CREATE TABLE gates_mor_unordered (gate INT, keeper STRING, metres DOUBLE, at BIGINT) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'gate') LOCATION 'file://{home}/gates_mor_unordered'
;
INSERT INTO gates_mor_unordered VALUES (1, 'Ada', 1.5, 10), (2, 'Bo', 2.5, 10), (3, 'Cem', 3.5, 10), (4, 'Dina', 4.5, 10)
;
MERGE INTO gates_mor_unordered t USING (SELECT 1 AS gate, 'Ada' AS keeper, 10.0D AS metres, 20L AS at, true AS gone UNION ALL SELECT 2, 'Bo', 20.0D, 20L, false) s ON t.gate = s.gate WHEN MATCHED AND s.gone THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
;
SELECT gate, keeper, metres, at FROM gates_mor_unordered
;
MERGE INTO gates_mor_unordered t USING (SELECT 3 AS gate, 30.0D AS metres, 20L AS at, false AS gone UNION ALL SELECT 4, 40.0D, 20L, true) s ON t.gate = s.gate WHEN MATCHED AND NOT s.gone THEN UPDATE SET metres = s.metres, at = s.at WHEN MATCHED AND s.gone THEN DELETE
;
SELECT gate, keeper, metres, at FROM gates_mor_unordered
;
UPDATE gates_mor_unordered SET metres = 99.0, at = 30 WHERE keeper = 'Cem'
;
SELECT gate, keeper, metres, at FROM gates_mor_unordered
;
MERGE INTO gates_mor_unordered t USING (SELECT 2 AS gate, 22.0D AS metres, 40L AS at) s ON t.gate = s.gate WHEN MATCHED THEN UPDATE SET metres = s.metres, at = s.at
;
SELECT gate, keeper, metres, at FROM gates_mor_unordered
;
MERGE INTO gates_cow t USING (SELECT 2 AS gate, 'x' AS keeper, 55.0D AS metres, 50L AS at UNION ALL SELECT 6, 'Eva', 66.0D, 50L) s ON t.gate = s.gate WHEN MATCHED THEN UPDATE SET metres = s.metres, at = s.at WHEN NOT MATCHED THEN INSERT (gate, keeper, metres, at) VALUES (s.gate, s.keeper, s.metres, s.at)
;
SELECT gate, keeper, metres, at FROM gates_cow
;
MERGE INTO gates_cow t USING (SELECT 3 AS gate, 'x' AS keeper, 55.0D AS metres, 50L AS at UNION ALL SELECT 7, 'Eva', 66.0D, 50L) s ON t.gate = s.gate WHEN MATCHED THEN UPDATE SET t.metres = s.metres, t.at = s.at WHEN NOT MATCHED THEN INSERT (gate, keeper, metres, at) VALUES (s.gate, s.keeper, s.metres, s.at)
;
SELECT gate, keeper, metres, at FROM gates_cow
;
MERGE INTO gates_mor t USING (SELECT 2 AS gate, 'x' AS keeper, 55.0D AS metres, 50L AS at UNION ALL SELECT 6, 'Eva', 66.0D, 50L) s ON t.gate = s.gate WHEN MATCHED THEN UPDATE SET metres = s.metres, at = s.at WHEN NOT MATCHED THEN INSERT (gate, keeper, metres, at) VALUES (s.gate, s.keeper, s.metres, s.at)
;
SELECT gate, keeper, metres, at FROM gates_mor
;
MERGE INTO gates_mor t USING (SELECT 3 AS gate, 'x' AS keeper, 55.0D AS metres, 50L AS at UNION ALL SELECT 7, 'Eva', 66.0D, 50L) s ON t.gate = s.gate WHEN MATCHED THEN UPDATE SET t.metres = s.metres, t.at = s.at WHEN NOT MATCHED THEN INSERT (gate, keeper, metres, at) VALUES (s.gate, s.keeper, s.metres, s.at)
;
SELECT gate, keeper, metres, at FROM gates_mor
;
MERGE INTO gates_mor_unordered t USING (SELECT 2 AS gate, 'x' AS keeper, 55.0D AS metres, 50L AS at UNION ALL SELECT 6, 'Eva', 66.0D, 50L) s ON t.gate = s.gate WHEN MATCHED THEN UPDATE SET metres = s.metres, at = s.at WHEN NOT MATCHED THEN INSERT (gate, keeper, metres, at) VALUES (s.gate, s.keeper, s.metres, s.at)
;
SELECT gate, keeper, metres, at FROM gates_mor_unordered
;
MERGE INTO gates_mor_unordered t USING (SELECT 3 AS gate, 'x' AS keeper, 55.0D AS metres, 50L AS at UNION ALL SELECT 7, 'Eva', 66.0D, 50L) s ON t.gate = s.gate WHEN MATCHED THEN UPDATE SET t.metres = s.metres, t.at = s.at WHEN NOT MATCHED THEN INSERT (gate, keeper, metres, at) VALUES (s.gate, s.keeper, s.metres, s.at)
;
SELECT gate, keeper, metres, at FROM gates_mor_unordered
;
