-- The metadata table's procedures, repairs, exports, versions, locks.
CREATE TABLE ropes (rope INT, fibre STRING, metres DOUBLE, loft STRING) USING hudi TBLPROPERTIES (primaryKey = 'rope') PARTITIONED BY (loft) LOCATION 'file://{home}/ropes'
;
INSERT INTO ropes VALUES (1, 'hemp', 10.5, 'east'), (2, 'jute', 20.5, 'east'), (3, 'silk', 30.5, 'west')
;
UPDATE ropes SET metres = 11.5 WHERE rope = 1
;
CALL show_metadata_table_partitions(table => 'ropes')
;
CALL show_metadata_table_files(table => 'ropes', partition => 'loft=east')
;
CALL show_metadata_table_stats(table => 'ropes')
;
CALL show_metadata_table_column_stats(table => 'ropes', targetColumns => 'metres,fibre')
;
CALL show_metadata_table_column_stats(table => 'ropes')
;
CALL show_metadata_column_stats_overlap(table => 'ropes', targetColumns => 'metres')
;
CALL validate_metadata_table_files(table => 'ropes')
;
CALL delete_metadata_table(table => 'ropes')
;
CALL show_metadata_table_files(table => 'ropes', partition => 'loft=east')
;
CALL create_metadata_table(table => 'ropes')
;
CALL create_metadata_table(table => 'ropes')
;
CALL show_metadata_table_partitions(table => 'ropes')
;
CALL init_metadata_table(table => 'ropes', read_only => true)
;
CALL init_metadata_table(table => 'ropes')
;
INSERT INTO ropes VALUES (4, 'nylon', 40.5, 'west')
;
CALL show_metadata_table_partitions(table => 'ropes')
;
CALL validate_metadata_table_files(table => 'ropes', verbose => true)
;
SELECT rope, metres FROM ropes WHERE metres > 15
;
CALL show_invalid_parquet(path => 'file://{home}/ropes')
;
CALL show_invalid_parquet(path => 'file://{home}/ropes', parallelism => 2, limit => 5, needDelete => false, partitions => 'loft=east')
;
CALL export_instants(table => 'ropes', local_folder => '{home}')
;
CALL export_instants(table => 'ropes', local_folder => '{home}/missing', limit => 1, actions => 'commit', desc => true)
;
CALL repair_add_partition_meta(table => 'ropes')
;
CALL repair_add_partition_meta(table => 'ropes', dry_run => false)
;
CALL repair_migrate_partition_meta(table => 'ropes')
;
CALL repair_migrate_partition_meta(table => 'ropes', dry_run => false)
;
CALL repair_corrupted_clean_files(table => 'ropes')
;
CALL repair_deduplicate(table => 'ropes', duplicated_partition_path => 'loft=east', repaired_output_path => '{home}/deduplicated')
;
CALL repair_overwrite_hoodie_props(table => 'ropes', new_props_file_path => 'file://{home}/ropes/.hoodie/hoodie.properties')
;
CALL delete_marker(table => 'ropes', instant_time => '{ropes.-1}')
;
CALL run_rollback_inflight_tableservice(table => 'ropes', pending_instant => '20000101000000000')
;
CALL set_audit_lock(table => 'ropes', state => 'enabled')
;
CALL show_audit_lock_status(table => 'ropes')
;
CALL validate_audit_lock(table => 'ropes')
;
CALL cleanup_audit_lock(table => 'ropes', dry_run => true, age_days => 7)
;
CALL set_audit_lock(table => 'ropes', state => 'disabled')
;
CALL downgrade_table(table => 'ropes', to_version => 'SIX')
;
SELECT rope, fibre, loft FROM ropes
;
CALL upgrade_table(table => 'ropes', to_version => 'NINE')
;
CALL show_table_properties(table => 'ropes', limit => 100)
;
UPDATE ropes SET fibre = 'cotton' WHERE rope = 3
;
SELECT rope, fibre, metres, loft FROM ropes
;
CREATE TABLE strands (strand INT, fibre STRING, loft STRING) USING parquet PARTITIONED BY (loft) LOCATION 'file://{home}/strands'
;
INSERT INTO strands VALUES (1, 'hemp', 'east'), (2, 'jute', 'west')
;
CALL run_bootstrap(table => 'strands_hudi', table_type => 'COPY_ON_WRITE', bootstrap_path => 'file://{home}/strands', base_path => 'file://{home}/strands_hudi', rowKey_field => 'strand', partition_path_field => 'loft')
;
CREATE TABLE strands_hudi USING hudi LOCATION 'file://{home}/strands_hudi'
;
SELECT strand, fibre, loft FROM strands_hudi
;
CALL show_bootstrap_mapping(table => 'strands_hudi')
;
CALL show_bootstrap_partitions(table => 'strands_hudi')
;
