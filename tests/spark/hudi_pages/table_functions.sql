-- Table functions over a table's timeline, its files and its metadata table.
CREATE TABLE trams (tram INT, line STRING, km DOUBLE, at BIGINT, depot STRING) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'tram', orderingFields = 'at') PARTITIONED BY (depot) LOCATION 'file://{home}/trams'
;
INSERT INTO trams VALUES (1, 'blue', 1.5, 1, 'north'), (2, 'red', 2.5, 1, 'south')
;
UPDATE trams SET km = 10.0, at = 2 WHERE tram = 1
;
SELECT action, state FROM hudi_query_timeline('trams', 'false')
;
SELECT * FROM hudi_query_timeline('trams', 'true')
;
SELECT * FROM hudi_query_timeline('file://{home}/trams', 'false')
;
SELECT action, count(*) AS instants FROM hudi_query_timeline('trams', 'true') GROUP BY action
;
SELECT * FROM hudi_filesystem_view('trams')
;
SELECT Partition_Path, count(*) AS slices FROM hudi_filesystem_view('trams') GROUP BY Partition_Path
;
SELECT * FROM hudi_filesystem_view('trams', 'depot=n*')
;
SELECT type, count(*) AS records FROM hudi_metadata('trams') GROUP BY type
;
SELECT key, type FROM hudi_metadata('trams') WHERE type = 1
;
SELECT ColumnStatsMetadata.columnName, ColumnStatsMetadata.valueCount, ColumnStatsMetadata.nullCount, ColumnStatsMetadata.isDeleted FROM hudi_metadata('file://{home}/trams') WHERE type = 3
;
SELECT tram, km FROM hudi_query('trams', 'snapshot')
;
SELECT tram, km FROM hudi_query('trams', 'read_optimized')
;
SELECT tram, km FROM hudi_query('trams', 'incremental', '{trams.0.done}')
;
SELECT tram, km FROM hudi_table_changes('trams', 'latest_state', 'earliest')
;
SELECT tram, km FROM hudi_table_changes('trams', 'cdc', 'earliest')
;
SELECT tram, km FROM hudi_table_changes('missing', 'latest_state', 'earliest')
;
SELECT * FROM hudi_query_timeline('missing', 'true')
;
