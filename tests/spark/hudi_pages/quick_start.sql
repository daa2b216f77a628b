-- The first hour with a table: one of each operation, then changes and other times.
CREATE TABLE parcels (parcel STRING, sender STRING, grams INT, price DOUBLE, moved BIGINT, depot STRING) USING hudi TBLPROPERTIES (primaryKey = 'parcel') PARTITIONED BY (depot) LOCATION 'file://{home}/parcels'
;
INSERT INTO parcels VALUES ('p-01', 'Anke', 450, 4.5, 1571000001, 'bonn'), ('p-02', 'Bilal', 1200, 6.9, 1571000002, 'bonn'), ('p-03', 'Chiara', 80, 2.2, 1571000003, 'turku'), ('p-04', 'Dewi', 9000, 17.5, 1571000004, 'turku'), ('p-05', 'Emil', 700, 5.1, 1571000005, 'porto')
;
SELECT parcel, sender, grams, price, moved, depot FROM parcels
;
SELECT parcel, price FROM parcels WHERE grams > 500
;
SELECT _hoodie_record_key, _hoodie_partition_path, parcel FROM parcels
;
UPDATE parcels SET price = price * 2 WHERE sender = 'Dewi'
;
SELECT parcel, price FROM parcels WHERE parcel = 'p-04'
;
DELETE FROM parcels WHERE parcel = 'p-03'
;
SELECT parcel FROM parcels
;
CREATE TABLE arrivals (parcel STRING, sender STRING, grams INT, price DOUBLE, moved BIGINT, depot STRING) USING hudi TBLPROPERTIES (primaryKey = 'parcel') LOCATION 'file://{home}/arrivals'
;
INSERT INTO arrivals VALUES ('p-02', 'Bilal', 1250, 7.4, 1571000009, 'bonn'), ('p-09', 'Ines', 310, 3.0, 1571000010, 'porto')
;
MERGE INTO parcels AS target USING arrivals AS source ON target.parcel = source.parcel AND target.depot = source.depot WHEN MATCHED THEN UPDATE SET target.grams = source.grams, target.price = source.price WHEN NOT MATCHED THEN INSERT *
;
SELECT parcel, grams, price, depot FROM parcels
;
SELECT parcel, price FROM parcels TIMESTAMP AS OF '{parcels.0}'
;
SELECT parcel, price FROM parcels TIMESTAMP AS OF '{parcels.1}'
;
SELECT count(*) FROM parcels TIMESTAMP AS OF '2001-01-01'
;
SELECT parcel, price FROM hudi_table_changes('parcels', 'latest_state', '{parcels.1.done}')
;
SELECT parcel, price FROM hudi_table_changes('parcels', 'latest_state', 'earliest')
;
SELECT parcel FROM hudi_table_changes('parcels', 'latest_state', '{parcels.0.done}', '{parcels.1.done}')
;
INSERT OVERWRITE parcels SELECT 'p-20', 'Noor', 640, 5.0, 1571000020, 'turku'
;
SELECT parcel, depot FROM parcels
;
INSERT OVERWRITE parcels PARTITION (depot = 'bonn') SELECT 'p-21', 'Olga', 75, 2.0, 1571000021
;
SELECT parcel, depot FROM parcels
;
CREATE TABLE parcels_cdc (parcel STRING, grams INT, price DOUBLE, moved BIGINT, depot STRING) USING hudi TBLPROPERTIES (primaryKey = 'parcel', 'hoodie.table.cdc.enabled' = 'true') PARTITIONED BY (depot) LOCATION 'file://{home}/parcels_cdc'
;
INSERT INTO parcels_cdc VALUES ('p-01', 450, 4.5, 1, 'bonn'), ('p-02', 1200, 6.9, 1, 'bonn'), ('p-03', 80, 2.2, 1, 'turku')
;
UPDATE parcels_cdc SET grams = 460 WHERE parcel = 'p-01'
;
DELETE FROM parcels_cdc WHERE parcel = 'p-03'
;
SELECT op, get_json_object(before, '$.grams') AS was, get_json_object(after, '$.grams') AS now FROM hudi_table_changes('parcels_cdc', 'cdc', 'earliest')
;
SELECT op, get_json_object(before, '$.parcel') AS parcel FROM hudi_table_changes('parcels_cdc', 'cdc', '{parcels_cdc.0.done}')
;
CREATE TABLE parcels_log (parcel STRING, grams INT, price DOUBLE, moved BIGINT, depot STRING) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'parcel', orderingFields = 'moved') PARTITIONED BY (depot) LOCATION 'file://{home}/parcels_log'
;
INSERT INTO parcels_log VALUES ('p-01', 450, 4.5, 5, 'bonn'), ('p-02', 1200, 6.9, 5, 'bonn'), ('p-03', 80, 2.2, 5, 'turku')
;
UPDATE parcels_log SET grams = 999, moved = 6 WHERE parcel = 'p-01'
;
UPDATE parcels_log SET grams = 1, moved = 2 WHERE parcel = 'p-02'
;
DELETE FROM parcels_log WHERE parcel = 'p-03'
;
SELECT parcel, grams, moved FROM parcels_log
;
SELECT parcel, grams, moved FROM parcels_log TIMESTAMP AS OF '{parcels_log.0}'
;
SELECT parcel, grams FROM hudi_table_changes('parcels_log', 'latest_state', '{parcels_log.0.done}')
;
