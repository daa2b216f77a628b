-- Procedures that show a table's commits, files, logs and sizes.
CREATE TABLE bees (bee INT, hive STRING, load DOUBLE, at BIGINT, field STRING) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'bee', orderingFields = 'at') PARTITIONED BY (field) LOCATION 'file://{home}/bees'
;
INSERT INTO bees VALUES (1, 'oak', 0.1, 1, 'clover'), (2, 'oak', 0.2, 1, 'clover'), (3, 'elm', 0.3, 1, 'heath')
;
UPDATE bees SET load = load + 1, at = 2 WHERE hive = 'oak'
;
UPDATE bees SET load = load + 1, at = 3 WHERE bee = 3
;
CALL show_commits(table => 'bees', limit => 10)
;
CALL show_commits(table => 'bees', limit => 1)
;
CALL show_commits_metadata(table => 'bees')
;
CALL show_timeline(table => 'bees', limit => 20)
;
CALL show_timeline(path => 'file://{home}/bees', showArchived => true)
;
CALL show_timeline(table => 'bees', filter => "action = 'deltacommit'")
;
CALL show_commit_files(table => 'bees', instant_time => '{bees.1}')
;
CALL show_commit_partitions(table => 'bees', instant_time => '{bees.0}')
;
CALL show_commit_write_stats(table => 'bees', instant_time => '{bees.0}')
;
CALL show_commit_extra_metadata(table => 'bees')
;
CALL show_commit_extra_metadata(table => 'bees', instant_time => '{bees.0}', metadata_key => 'schema')
;
CALL show_commit_files(table => 'bees', instant_time => '20000101000000000')
;
CALL show_archived_commits(table => 'bees', start_ts => '20000101000000000', end_ts => '20991231000000000')
;
CALL show_archived_commits_metadata(table => 'bees')
;
CALL show_fsview_all(table => 'bees', path_regex => '*/', limit => 10)
;
CALL show_fsview_all(table => 'bees')
;
CALL show_fsview_latest(table => 'bees', path_regex => 'field=clover')
;
CALL show_fsview_latest(table => 'bees')
;
CALL show_fs_path_detail(path => 'file://{home}/bees', is_sub => true)
;
CALL show_file_status(table => 'bees', partition => 'field=clover', file => 'nothing')
;
CALL show_table_properties(table => 'bees', limit => 100)
;
CALL show_table_properties(path => 'file://{home}/bees', limit => 3)
;
CALL stats_file_sizes(table => 'bees')
;
CALL stats_file_sizes(table => 'bees', partition_path => 'field=*', limit => 5)
;
CALL stats_wa(table => 'bees')
;
CALL show_logfile_metadata(table => 'bees', log_file_path_pattern => 'file://{home}/bees/field=*/.*.log.*')
;
CALL show_logfile_records(table => 'bees', log_file_path_pattern => 'file://{home}/bees/field=heath/.*.log.*', merge => true)
;
CALL show_logfile_records(table => 'bees', log_file_path_pattern => 'file://{home}/bees/field=clover/.*.log.*', limit => 1)
;
DELETE FROM bees WHERE bee = 3
;
CALL show_logfile_metadata(table => 'bees', log_file_path_pattern => 'file://{home}/bees/field=heath/.*.log.*')
;
CREATE TABLE bees_two (bee INT, hive STRING) USING hudi TBLPROPERTIES (primaryKey = 'bee') LOCATION 'file://{home}/bees_two'
;
INSERT INTO bees_two VALUES (1, 'oak')
;
CALL commits_compare(table => 'bees', path => 'file://{home}/bees_two')
;
CALL copy_to_table(table => 'bees', new_table => 'bees_copied')
;
SELECT bee, load, field FROM bees_copied
;
CALL copy_to_table(table => 'bees', query_type => 'read_optimized', new_table => 'bees_base')
;
SELECT bee, load FROM bees_base
;
CALL copy_to_table(table => 'bees', query_type => 'incremental', new_table => 'bees_since', begin_instance_time => '{bees.1.done}', end_instance_time => '{bees.2.done}')
;
SELECT bee, load FROM bees_since
;
CALL copy_to_table(table => 'bees', as_of_instant => '{bees.0}', new_table => 'bees_first')
;
SELECT bee, load FROM bees_first
;
CALL copy_to_temp_view(table => 'bees', view_name => 'bees_view', query_type => 'snapshot')
;
SELECT bee, load FROM bees_view
;
CALL help(cmd => 'show_commits')
;
CALL help(cmd => 'no_such_procedure')
;
CALL no_such_procedure(table => 'bees')
;
CALL show_commits(limit => 10)
;
CALL show_commits('bees', 2)
;
