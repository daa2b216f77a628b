-- Key generators: what the meta columns of a row become.
CREATE TABLE k_simple (a STRING, n INT, part STRING) USING hudi TBLPROPERTIES (primaryKey = 'a') PARTITIONED BY (part) LOCATION 'file://{home}/k_simple'
;
INSERT INTO k_simple VALUES ('x', 1, 'one'), ('y', 2, 'two words'), ('z', 3, NULL)
;
SELECT _hoodie_record_key, _hoodie_partition_path, a, n, part FROM k_simple
;
INSERT INTO k_simple VALUES (NULL, 4, 'one')
;
CREATE TABLE k_complex (a STRING, b INT, n INT, part STRING, year INT) USING hudi TBLPROPERTIES (primaryKey = 'a,b') PARTITIONED BY (part, year) LOCATION 'file://{home}/k_complex'
;
INSERT INTO k_complex VALUES ('x', 1, 1, 'one', 2001), ('x', 2, 2, 'one', 2002), (NULL, 3, 3, 'two', 2002)
;
UPDATE k_complex SET n = 20 WHERE b = 2
;
SELECT _hoodie_record_key, _hoodie_partition_path, n FROM k_complex
;
CREATE TABLE k_none (a STRING, n INT) USING hudi TBLPROPERTIES (primaryKey = 'a') LOCATION 'file://{home}/k_none'
;
INSERT INTO k_none VALUES ('x', 1)
;
SELECT _hoodie_record_key, _hoodie_partition_path, n FROM k_none
;
CREATE TABLE k_auto (a STRING, n INT, part STRING) USING hudi PARTITIONED BY (part) LOCATION 'file://{home}/k_auto'
;
INSERT INTO k_auto VALUES ('x', 1, 'p'), ('x', 1, 'p')
;
SELECT _hoodie_record_key = '' AS empty, _hoodie_partition_path, n FROM k_auto
;
SELECT count(DISTINCT _hoodie_record_key) FROM k_auto
;
CREATE TABLE k_plain_path (a STRING, n INT, part STRING) USING hudi TBLPROPERTIES (primaryKey = 'a', 'hoodie.datasource.write.hive_style_partitioning' = 'false', 'hoodie.datasource.write.partitionpath.urlencode' = 'true') PARTITIONED BY (part) LOCATION 'file://{home}/k_plain_path'
;
INSERT INTO k_plain_path VALUES ('x', 1, 'a/b'), ('y', 2, 'plain'), ('z', 3, 'a b')
;
SELECT _hoodie_partition_path, a, part FROM k_plain_path
;
SELECT a FROM k_plain_path WHERE part = 'a/b'
;
CREATE TABLE k_time (a STRING, n INT, at BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'a', 'hoodie.table.keygenerator.class' = 'org.apache.hudi.keygen.TimestampBasedKeyGenerator', 'hoodie.keygen.timebased.timestamp.type' = 'EPOCHMILLISECONDS', 'hoodie.keygen.timebased.output.dateformat' = 'yyyy/MM', 'hoodie.keygen.timebased.timezone' = 'UTC') PARTITIONED BY (at) LOCATION 'file://{home}/k_time'
;
INSERT INTO k_time VALUES ('x', 1, 951868799000), ('y', 2, 951868800000), ('z', 3, 951955200000)
;
SELECT _hoodie_partition_path, a, n, at FROM k_time
;
SELECT a FROM k_time WHERE at = 951868800000
;
UPDATE k_time SET n = 30 WHERE a = 'z'
;
SELECT a, n FROM k_time
;
CREATE TABLE k_custom (a STRING, n INT, part STRING, at BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'a', 'hoodie.table.keygenerator.class' = 'org.apache.hudi.keygen.CustomKeyGenerator', 'hoodie.datasource.write.partitionpath.field' = 'part:SIMPLE,at:TIMESTAMP', 'hoodie.keygen.timebased.timestamp.type' = 'SCALAR', 'hoodie.keygen.timebased.timestamp.scalar.time.unit' = 'SECONDS', 'hoodie.keygen.timebased.output.dateformat' = 'yyyy-MM-dd', 'hoodie.keygen.timebased.timezone' = 'UTC') PARTITIONED BY (part, at) LOCATION 'file://{home}/k_custom'
;
INSERT INTO k_custom VALUES ('x', 1, 'p', 951868799), ('y', 2, 'q', 951868800)
;
SELECT _hoodie_partition_path, a, n, part, at FROM k_custom
;
DELETE FROM k_custom WHERE a = 'x'
;
SELECT a, n FROM k_custom
;
CREATE TABLE k_one (a STRING, b STRING, n INT) USING hudi TBLPROPERTIES (primaryKey = 'a,b', 'hoodie.datasource.write.keygenerator.type' = 'NON_PARTITION') LOCATION 'file://{home}/k_one'
;
INSERT INTO k_one VALUES ('x', 'y', 1)
;
MERGE INTO k_one t USING (SELECT 'x' AS a, 'y' AS b, 2 AS n) s ON t.a = s.a AND t.b = s.b WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
;
SELECT _hoodie_record_key, n FROM k_one
;
