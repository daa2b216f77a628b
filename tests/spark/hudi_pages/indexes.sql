-- Record and secondary indexes, statistics of columns, bloom filters: created, used, updated, dropped.
CREATE TABLE loans (loan STRING, reader STRING, book STRING, fee DOUBLE, lent BIGINT, branch STRING) USING hudi TBLPROPERTIES (primaryKey = 'loan') PARTITIONED BY (branch) LOCATION 'file://{home}/loans'
;
INSERT INTO loans VALUES ('l-1', 'Pia', 'atlas', 0.5, 1000000001, 'harbour'), ('l-2', 'Quin', 'novel', 1.5, 1000090002, 'harbour'), ('l-3', 'Rosa', 'poems', 2.5, 1000180003, 'hill'), ('l-4', 'Sami', 'atlas', 3.5, 1000270004, 'hill'), ('l-5', 'Tove', 'maps', 4.5, 1000360005, 'park')
;
CREATE INDEX record_index ON loans (loan)
;
SET hoodie.write.lock.provider = org.apache.hudi.client.transaction.lock.InProcessLockProvider
;
CREATE INDEX record_index ON loans (loan)
;
SHOW INDEXES FROM loans
;
SELECT loan, reader FROM loans WHERE loan = 'l-2'
;
CREATE INDEX by_reader ON loans (reader)
;
SHOW INDEXES FROM loans
;
SELECT loan, reader FROM loans WHERE reader = 'Sami'
;
SELECT loan, reader FROM loans WHERE reader IN ('Pia', 'Tove', 'nobody')
;
SELECT loan, reader FROM loans WHERE loan = 'l-5' AND reader = 'Tove'
;
UPDATE loans SET reader = 'Uma' WHERE loan = 'l-1'
;
SHOW INDEXES FROM loans
;
SELECT loan, reader FROM loans WHERE reader = 'Uma'
;
SELECT loan, reader FROM loans WHERE reader = 'Pia'
;
UPDATE loans SET fee = 9.5 WHERE reader = 'Rosa'
;
SELECT loan, fee FROM loans WHERE reader = 'Rosa'
;
INSERT INTO loans VALUES ('l-6', 'Vera', 'essay', 0.1, 1000450006, 'park')
;
SELECT loan, reader FROM loans WHERE reader = 'Vera'
;
SELECT loan, reader FROM loans WHERE loan = 'l-6'
;
DELETE FROM loans WHERE reader = 'Quin'
;
SELECT loan FROM loans WHERE reader = 'Quin'
;
CREATE INDEX by_book ON loans (book)
;
SELECT loan, book FROM loans WHERE book = 'atlas'
;
SELECT loan, book FROM loans WHERE book = 'maps' AND reader = 'Tove'
;
MERGE INTO loans t USING (SELECT 'l-4' AS loan, 'hill' AS branch, 'diary' AS book) s ON t.loan = s.loan AND t.branch = s.branch WHEN MATCHED THEN UPDATE SET book = s.book
;
SELECT loan, book FROM loans WHERE book = 'diary'
;
SELECT loan, book FROM loans WHERE book = 'atlas'
;
CREATE INDEX by_book ON loans (book)
;
CREATE INDEX IF NOT EXISTS by_book ON loans (book)
;
CREATE INDEX by_nothing ON loans (nothing)
;
REFRESH INDEX by_book ON loans
;
DROP INDEX by_reader ON loans
;
DROP INDEX by_reader ON loans
;
DROP INDEX IF EXISTS by_reader ON loans
;
SHOW INDEXES FROM loans
;
SELECT loan, reader FROM loans WHERE reader = 'Uma'
;
DROP INDEX by_book ON loans
;
DROP INDEX record_index ON loans
;
SHOW INDEXES FROM loans
;
UPDATE loans SET reader = 'Wim' WHERE loan = 'l-3'
;
SELECT loan, reader, book, fee FROM loans
;
CREATE TABLE loans_log (loan STRING, reader STRING, book STRING, fee DOUBLE, lent BIGINT) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'loan', orderingFields = 'lent', 'hoodie.metadata.global.record.level.index.enable' = 'true') LOCATION 'file://{home}/loans_log'
;
INSERT INTO loans_log VALUES ('l-1', 'Pia', 'atlas', 0.5, 1), ('l-2', 'Quin', 'novel', 1.5, 1), ('l-3', 'Rosa', 'poems', 2.5, 1)
;
CREATE INDEX by_reader ON loans_log (reader)
;
CREATE INDEX by_fee ON loans_log (fee)
;
SHOW INDEXES FROM loans_log
;
UPDATE loans_log SET reader = 'Xenia', lent = 2 WHERE loan = 'l-2'
;
UPDATE loans_log SET reader = 'old news', lent = 0 WHERE loan = 'l-3'
;
SELECT loan, reader FROM loans_log WHERE reader = 'Xenia'
;
SELECT loan, reader FROM loans_log WHERE reader = 'Quin'
;
SELECT loan, reader FROM loans_log WHERE reader = 'Rosa'
;
DELETE FROM loans_log WHERE loan = 'l-1'
;
SELECT loan, reader FROM loans_log WHERE reader = 'Pia'
;
SELECT loan, fee FROM loans_log WHERE fee = 1.5
;
CALL run_compaction(op => 'run', table => 'loans_log', options => 'hoodie.compact.inline.max.delta.commits=1')
;
SELECT loan, reader FROM loans_log WHERE reader = 'Xenia'
;
CREATE TABLE loans_stats (loan INT, fee DOUBLE, book STRING, branch STRING) USING hudi TBLPROPERTIES (primaryKey = 'loan', 'hoodie.metadata.index.bloom.filter.enable' = 'true', 'hoodie.metadata.index.column.stats.enable' = 'true', 'hoodie.metadata.index.column.stats.column.list' = 'fee,book') PARTITIONED BY (branch) LOCATION 'file://{home}/loans_stats'
;
SET hoodie.parquet.small.file.limit = 0
;
INSERT INTO loans_stats VALUES (1, 0.5, 'a', 'hill'), (2, 1.5, 'b', 'park')
;
INSERT INTO loans_stats VALUES (3, 10.5, 'c', 'hill'), (4, 11.5, 'd', 'park')
;
UPDATE loans_stats SET fee = -3.0 WHERE loan = 1
;
SELECT loan, fee FROM loans_stats WHERE fee < 0
;
SELECT loan, fee FROM loans_stats WHERE fee > 10 AND book = 'd'
;
CALL show_metadata_table_partitions(table => 'loans_stats')
;
CALL show_metadata_table_column_stats(table => 'loans_stats', targetColumns => 'fee')
;
RESET
;
