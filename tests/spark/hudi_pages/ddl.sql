-- What defines a table and what changes it later; partitions; other places and properties.
CREATE TABLE wells (well INT, name STRING, depth DOUBLE) USING hudi LOCATION 'file://{home}/wells'
;
CREATE TABLE IF NOT EXISTS wells (well INT) USING hudi LOCATION 'file://{home}/wells'
;
CREATE TABLE pumps (pump INT, name STRING, litres BIGINT, checked BIGINT, region STRING, year INT) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'pump', preCombineField = 'checked') PARTITIONED BY (region, year) LOCATION 'file://{home}/pumps'
;
INSERT INTO pumps VALUES (1, 'ram', 10, 1, 'east', 1999), (2, 'jet', 20, 1, 'east', 2001), (3, 'hand', 30, 1, 'west', 2001)
;
SHOW CREATE TABLE pumps
;
DESCRIBE TABLE pumps
;
SHOW TBLPROPERTIES pumps
;
SHOW PARTITIONS pumps
;
SHOW PARTITIONS pumps PARTITION (region = 'east')
;
ALTER TABLE pumps DROP PARTITION (region = 'east', year = 1999)
;
SHOW PARTITIONS pumps
;
SELECT pump, region, year FROM pumps
;
ALTER TABLE pumps ADD PARTITION (region = 'south', year = 2005)
;
SHOW PARTITIONS pumps
;
CREATE TABLE pumps_named USING hudi LOCATION 'file://{home}/pumps'
;
SELECT pump, name, litres, region, year FROM pumps_named
;
CREATE TABLE pumps_wrong (pump INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'missing') LOCATION 'file://{home}/pumps_wrong'
;
INSERT INTO wells VALUES (1, 'old', 12.5)
;
ALTER TABLE wells ADD COLUMNS (metres INT COMMENT 'across', note STRING)
;
INSERT INTO wells VALUES (2, 'new', 30.0, 4, 'dry')
;
SELECT well, name, depth, metres, note FROM wells
;
ALTER TABLE wells CHANGE COLUMN metres metres BIGINT
;
INSERT INTO wells VALUES (3, 'wide', 1.0, 5000000000, 'wet')
;
SELECT well, metres FROM wells
;
ALTER TABLE wells RENAME COLUMN note TO remark
;
SET hoodie.schema.on.read.enable = true
;
ALTER TABLE wells RENAME COLUMN note TO remark
;
SELECT well, remark FROM wells
;
ALTER TABLE wells ALTER COLUMN depth COMMENT 'metres below ground'
;
ALTER TABLE wells ADD COLUMNS (rim STRUCT<height: INT, stone: STRING> AFTER name)
;
ALTER TABLE wells ALTER COLUMN depth AFTER well
;
ALTER TABLE wells DROP COLUMN metres
;
DESCRIBE TABLE wells
;
INSERT INTO wells SELECT 4, 2.5, 'low', named_struct('height', 1, 'stone', 'slate'), 'none'
;
SELECT well, name, rim, remark FROM wells
;
RESET
;
ALTER TABLE wells SET TBLPROPERTIES (keeper = 'town', 'hoodie.keep.max.commits' = '50')
;
SHOW TBLPROPERTIES wells
;
ALTER TABLE wells UNSET TBLPROPERTIES (keeper)
;
SHOW TBLPROPERTIES wells
;
ALTER TABLE wells RENAME TO fountains
;
SELECT count(*) FROM fountains
;
TRUNCATE TABLE fountains
;
SELECT count(*) FROM fountains
;
TRUNCATE TABLE pumps PARTITION (region = 'west')
;
SELECT pump, region, year FROM pumps
;
DROP TABLE fountains
;
SELECT count(*) FROM fountains
;
DROP TABLE pumps
;
CREATE TABLE gauges (gauge INT, reading DOUBLE, at TIMESTAMP, on_day DATE, exact DECIMAL(12, 3), tags ARRAY<STRING>, limits MAP<STRING, INT>) USING hudi TBLPROPERTIES (primaryKey = 'gauge', 'hoodie.metadata.index.column.stats.column.list' = 'reading,exact', 'hoodie.parquet.compression.codec' = 'zstd') LOCATION 'file://{home}/gauges'
;
INSERT INTO gauges VALUES (1, 0.5, TIMESTAMP '2012-02-29 23:59:58.123456', DATE '2012-02-29', 12.345, array('a', 'b'), map('low', 1)), (2, NULL, NULL, NULL, NULL, NULL, NULL)
;
SELECT gauge, reading, at, on_day, exact, tags, limits FROM gauges
;
SELECT gauge FROM gauges WHERE exact > 12 AND on_day < DATE '2013-01-01'
;
