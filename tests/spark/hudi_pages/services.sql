-- Compaction, clustering, cleaning, archiving, savepoints and rollbacks, with their thresholds.
CREATE TABLE kilns (kiln INT, glaze STRING, heat DOUBLE, at BIGINT) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'kiln', orderingFields = 'at') LOCATION 'file://{home}/kilns'
;
INSERT INTO kilns VALUES (1, 'ash', 1000, 1), (2, 'salt', 1100, 1)
;
UPDATE kilns SET heat = heat + 1, at = 2 WHERE kiln = 1
;
CALL run_compaction(op => 'schedule', table => 'kilns')
;
CALL run_compaction(op => 'run', table => 'kilns')
;
SELECT kiln, heat FROM hudi_query('kilns', 'read_optimized')
;
UPDATE kilns SET heat = heat + 1, at = 3 WHERE kiln = 1
;
UPDATE kilns SET heat = heat + 1, at = 4 WHERE kiln = 2
;
UPDATE kilns SET heat = heat + 1, at = 5 WHERE kiln = 1
;
CALL run_compaction(op => 'schedule', table => 'kilns')
;
CALL show_compaction(table => 'kilns')
;
CALL run_compaction(op => 'execute', table => 'kilns')
;
CALL show_compaction(table => 'kilns', limit => 5)
;
SELECT kiln, heat FROM hudi_query('kilns', 'read_optimized')
;
UPDATE kilns SET heat = heat + 1, at = 6 WHERE kiln = 1
;
CALL run_compaction(op => 'scheduleAndExecute', table => 'kilns', options => 'hoodie.compact.inline.max.delta.commits=1')
;
CALL show_timeline(table => 'kilns', limit => 50)
;
CREATE TABLE tiles (tile INT, glaze STRING, at BIGINT, room STRING) USING hudi TBLPROPERTIES (primaryKey = 'tile') PARTITIONED BY (room) LOCATION 'file://{home}/tiles'
;
SET hoodie.parquet.small.file.limit = 0
;
INSERT INTO tiles VALUES (4, 'ash', 1, 'hall'), (2, 'salt', 1, 'bath')
;
INSERT INTO tiles VALUES (1, 'tin', 1, 'hall'), (5, 'iron', 1, 'bath')
;
INSERT INTO tiles VALUES (3, 'lead', 1, 'hall')
;
CALL run_clustering(table => 'tiles', order => 'tile', show_involved_partition => true)
;
CALL show_clustering(table => 'tiles', show_involved_partition => true)
;
SELECT tile, glaze, room FROM tiles
;
INSERT INTO tiles VALUES (6, 'zinc', 1, 'hall')
;
INSERT INTO tiles VALUES (7, 'bone', 1, 'hall')
;
CALL run_clustering(table => 'tiles', op => 'schedule', predicate => "room = 'hall'")
;
CALL run_clustering(table => 'tiles', op => 'execute')
;
CALL run_clustering(path => 'file://{home}/tiles', op => 'scheduleAndExecute', order => 'tile,at', order_strategy => 'z-order', options => 'hoodie.clustering.plan.strategy.small.file.limit=1000000000')
;
CALL show_clustering(path => 'file://{home}/tiles')
;
SELECT count(DISTINCT _hoodie_file_name) AS files, count(*) AS tiles FROM tiles
;
CALL show_timeline(table => 'tiles', limit => 50)
;
CALL run_clean(table => 'tiles', retain_commits => 2)
;
CALL run_clean(table => 'tiles', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1)
;
CALL run_clean(table => 'tiles', clean_policy => 'KEEP_LATEST_BY_HOURS', hours_retained => 1)
;
CALL show_cleans(table => 'tiles')
;
CALL show_cleans_metadata(table => 'tiles')
;
CALL show_clean_plans(table => 'tiles')
;
SELECT count(*) FROM tiles TIMESTAMP AS OF '{tiles.0}'
;
CALL archive_commits(table => 'tiles')
;
CALL archive_commits(table => 'tiles', min_commits => 2, max_commits => 3, retain_commits => 1, enable_metadata => true)
;
CALL show_archived_commits(table => 'tiles')
;
CALL show_timeline(table => 'tiles', showArchived => true, limit => 50)
;
RESET
;
CREATE TABLE vases (vase INT, glaze STRING) USING hudi TBLPROPERTIES (primaryKey = 'vase') LOCATION 'file://{home}/vases'
;
INSERT INTO vases VALUES (1, 'ash')
;
CALL create_savepoint(table => 'vases', commit_time => '{vases.0}', user => 'potter', comments => 'before the kiln')
;
INSERT INTO vases VALUES (2, 'salt')
;
CALL show_savepoints(table => 'vases')
;
CALL rollback_to_instant(table => 'vases', instant_time => '{vases.-1}')
;
CALL show_rollbacks(table => 'vases')
;
CALL show_rollback_detail(table => 'vases', instant_time => '{vases.-1}')
;
SELECT vase, glaze FROM vases
;
INSERT INTO vases VALUES (3, 'tin')
;
CALL create_savepoint('vases', '{vases.-1}')
;
CALL rollback_to_savepoint(table => 'vases', instant_time => '{vases.0}')
;
CALL delete_savepoint(table => 'vases', instant_time => '{vases.0}')
;
CALL show_savepoints(table => 'vases')
;
CALL rollback_to_instant(table => 'vases', instant_time => '20000101000000000')
;
SELECT vase, glaze FROM vases
;
CREATE TABLE bowls (bowl INT, glaze STRING, at BIGINT) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'bowl', orderingFields = 'at', 'hoodie.compact.inline' = 'true', 'hoodie.compact.inline.max.delta.commits' = '2', 'hoodie.clustering.inline' = 'true', 'hoodie.clustering.inline.max.commits' = '4') LOCATION 'file://{home}/bowls'
;
INSERT INTO bowls VALUES (1, 'ash', 1)
;
UPDATE bowls SET glaze = 'salt', at = 2 WHERE bowl = 1
;
UPDATE bowls SET glaze = 'tin', at = 3 WHERE bowl = 1
;
UPDATE bowls SET glaze = 'lead', at = 4 WHERE bowl = 1
;
CALL show_timeline(table => 'bowls', limit => 50)
;
SELECT bowl, glaze FROM bowls
;
CREATE TABLE plates (plate INT, glaze STRING, day STRING) USING hudi TBLPROPERTIES (primaryKey = 'plate') PARTITIONED BY (day) LOCATION 'file://{home}/plates'
;
INSERT INTO plates VALUES (1, 'ash', '2001-01-01'), (2, 'tin', '2001-01-02')
;
CALL run_ttl(table => 'plates', retain_days => 1)
;
CALL drop_partition(table => 'plates', partition => 'day=2001-01-01')
;
SELECT plate, day FROM plates
;
CALL truncate_table(table => 'plates', partitions => 'day=2001-01-02')
;
SELECT plate, day FROM plates
;
