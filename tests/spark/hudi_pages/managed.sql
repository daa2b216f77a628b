-- Tables without LOCATION, and tables from queries.
CREATE TABLE coins (coin INT, face STRING, worth DECIMAL(10, 2)) USING hudi TBLPROPERTIES (primaryKey = 'coin')
;
INSERT INTO coins VALUES (1, 'ship', 2.50), (2, 'stag', 0.05)
;
SELECT coin, face, worth FROM coins
;
CREATE TABLE coins (coin INT) USING hudi
;
CREATE TABLE coins_copy USING hudi TBLPROPERTIES (primaryKey = 'coin') AS SELECT coin, face, worth FROM coins
;
SELECT coin, face, worth FROM coins_copy
;
CREATE TABLE coins_parted USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'coin', orderingFields = 'worth') PARTITIONED BY (face) AS SELECT coin, worth, face FROM coins
;
UPDATE coins_parted SET worth = 3.00 WHERE coin = 1
;
SELECT coin, worth, face FROM coins_parted
;
SHOW PARTITIONS coins_parted
;
CREATE TABLE raw_coins (coin INT, face STRING) USING parquet LOCATION 'file://{home}/raw_coins'
;
INSERT INTO raw_coins VALUES (7, 'owl'), (8, 'bee'), (8, 'bee again')
;
CREATE TABLE coins_loaded USING hudi TBLPROPERTIES (primaryKey = 'coin') AS SELECT * FROM raw_coins
;
SELECT coin, face FROM coins_loaded
;
CREATE TABLE coins_external USING hudi TBLPROPERTIES (primaryKey = 'coin') LOCATION 'file://{home}/coins_external' AS SELECT * FROM raw_coins WHERE coin = 7
;
SELECT _hoodie_record_key, coin, face FROM coins_external
;
CREATE TABLE coins_nothing USING hudi AS SELECT 1 AS coin, 'no key' AS face
;
UPDATE coins_nothing SET face = 'changed' WHERE coin = 1
;
SELECT coin, face FROM coins_nothing
;
CREATE OR REPLACE TABLE coins_copy USING hudi AS SELECT 1 AS coin
;
CREATE VIEW coins_view AS SELECT coin FROM coins WHERE worth > 1
;
SELECT coin FROM coins_view
;
CREATE DATABASE mint
;
CREATE TABLE mint.coins USING hudi AS SELECT 5 AS coin
;
SELECT coin FROM mint.coins
;
SHOW TABLES IN mint
;
DROP DATABASE mint
;
DROP DATABASE mint CASCADE
;
DROP TABLE coins
;
CREATE TABLE coins (coin INT, face STRING) USING hudi
;
SELECT count(*) FROM coins
;
DROP TABLE coins_external
;
CREATE TABLE coins_external USING hudi LOCATION 'file://{home}/coins_external'
;
SELECT coin, face FROM coins_external
;
DROP TABLE coins_copy PURGE
;
DROP VIEW coins_view
;
DROP TABLE coins_parted
;
