-- An expression index with each function: created, used, updated through, dropped.
CREATE TABLE birds (bird INT, title STRING, padded STRING, grams INT, sent BIGINT, day STRING, moment TIMESTAMP, site STRING) USING hudi TBLPROPERTIES (primaryKey = 'bird') PARTITIONED BY (site) LOCATION 'file://{home}/birds'
;
SET hoodie.parquet.small.file.limit = 0
;
SET hoodie.write.lock.provider = org.apache.hudi.client.transaction.lock.InProcessLockProvider
;
INSERT INTO birds VALUES (1, 'Gull', ' xx ', 100, 1000000000, '2001-01-01', TIMESTAMP '2001-01-01 01:00:00', 'cliff'), (2, 'Owl', 'yy', 200, 1000100000, '2002-02-02', TIMESTAMP '2002-02-02 02:00:00', 'wood')
;
INSERT INTO birds VALUES (3, 'Heron', 'zz ', 300, 1000200000, '2003-03-03', TIMESTAMP '2003-03-03 03:00:00', 'cliff'), (4, 'Finch', ' ww', 400, 1000300000, '2004-04-04', TIMESTAMP '2004-04-04 04:00:00', 'wood')
;
CREATE INDEX stats_from_unixtime ON birds USING column_stats(sent) OPTIONS (expr = 'from_unixtime', format = 'yyyy-MM-dd')
;
SELECT bird, title FROM birds WHERE from_unixtime(sent, 'yyyy-MM-dd') = '2001-09-10'
;
UPDATE birds SET title = concat(title, 'f'), grams = grams + 1 WHERE from_unixtime(sent, 'yyyy-MM-dd') = '2001-09-10'
;
SELECT bird, title, grams FROM birds WHERE from_unixtime(sent, 'yyyy-MM-dd') = '2001-09-10'
;
DROP INDEX stats_from_unixtime ON birds
;
CREATE INDEX stats_date_format ON birds USING column_stats(day) OPTIONS (expr = 'date_format', format = 'yyyy')
;
SELECT bird, title FROM birds WHERE date_format(day, 'yyyy') = '2004'
;
DROP INDEX stats_date_format ON birds
;
CREATE INDEX stats_unix_timestamp ON birds USING column_stats(day) OPTIONS (expr = 'unix_timestamp', format = 'yyyy-MM-dd')
;
SELECT bird, title FROM birds WHERE unix_timestamp(day, 'yyyy-MM-dd') > 1050000000
;
DROP INDEX stats_unix_timestamp ON birds
;
CREATE INDEX stats_to_date ON birds USING column_stats(day) OPTIONS (expr = 'to_date', format = 'yyyy-MM-dd')
;
SELECT bird, title FROM birds WHERE to_date(day, 'yyyy-MM-dd') = DATE '2003-03-03'
;
DROP INDEX stats_to_date ON birds
;
CREATE INDEX stats_to_timestamp ON birds USING column_stats(day) OPTIONS (expr = 'to_timestamp', format = 'yyyy-MM-dd')
;
SELECT bird, title FROM birds WHERE to_timestamp(day, 'yyyy-MM-dd') < TIMESTAMP '2002-01-01 00:00:00'
;
DROP INDEX stats_to_timestamp ON birds
;
CREATE INDEX stats_date_add ON birds USING column_stats(day) OPTIONS (expr = 'date_add', days = '10')
;
SELECT bird, title FROM birds WHERE date_add(day, 10) = DATE '2003-03-13'
;
DROP INDEX stats_date_add ON birds
;
CREATE INDEX stats_date_sub ON birds USING column_stats(day) OPTIONS (expr = 'date_sub', days = '10')
;
SELECT bird, title FROM birds WHERE date_sub(day, 10) = DATE '2003-02-21'
;
DROP INDEX stats_date_sub ON birds
;
CREATE INDEX stats_year ON birds USING column_stats(moment) OPTIONS (expr = 'year')
;
SELECT bird, title FROM birds WHERE year(moment) = 2004
;
UPDATE birds SET title = concat(title, 'y'), grams = grams + 1 WHERE year(moment) = 2004
;
SELECT bird, title, grams FROM birds WHERE year(moment) = 2004
;
DROP INDEX stats_year ON birds
;
CREATE INDEX stats_month ON birds USING column_stats(moment) OPTIONS (expr = 'month')
;
SELECT bird, title FROM birds WHERE month(moment) = 2
;
DROP INDEX stats_month ON birds
;
CREATE INDEX stats_day ON birds USING column_stats(moment) OPTIONS (expr = 'day')
;
SELECT bird, title FROM birds WHERE day(moment) = 3
;
DROP INDEX stats_day ON birds
;
CREATE INDEX stats_hour ON birds USING column_stats(moment) OPTIONS (expr = 'hour')
;
SELECT bird, title FROM birds WHERE hour(moment) = 4
;
DROP INDEX stats_hour ON birds
;
CREATE INDEX stats_upper ON birds USING column_stats(title) OPTIONS (expr = 'upper')
;
SELECT bird, title FROM birds WHERE upper(title) = 'HERON'
;
UPDATE birds SET title = concat(title, 'u'), grams = grams + 1 WHERE upper(title) = 'HERON'
;
SELECT bird, title, grams FROM birds WHERE upper(title) = 'HERON'
;
DROP INDEX stats_upper ON birds
;
CREATE INDEX stats_lower ON birds USING column_stats(title) OPTIONS (expr = 'lower')
;
SELECT bird, title FROM birds WHERE lower(title) = 'gull'
;
DROP INDEX stats_lower ON birds
;
CREATE INDEX stats_substring ON birds USING column_stats(title) OPTIONS (expr = 'substring', pos = '1', len = '2')
;
SELECT bird, title FROM birds WHERE substring(title, 1, 2) = 'Ow'
;
DROP INDEX stats_substring ON birds
;
CREATE INDEX stats_trim ON birds USING column_stats(padded) OPTIONS (expr = 'trim')
;
SELECT bird, title FROM birds WHERE trim(padded) = 'xx'
;
DROP INDEX stats_trim ON birds
;
CREATE INDEX stats_ltrim ON birds USING column_stats(padded) OPTIONS (expr = 'ltrim')
;
SELECT bird, title FROM birds WHERE ltrim(padded) = 'xx '
;
DROP INDEX stats_ltrim ON birds
;
CREATE INDEX stats_rtrim ON birds USING column_stats(padded) OPTIONS (expr = 'rtrim')
;
SELECT bird, title FROM birds WHERE rtrim(padded) = ' xx'
;
DROP INDEX stats_rtrim ON birds
;
CREATE INDEX stats_length ON birds USING column_stats(title) OPTIONS (expr = 'length')
;
SELECT bird, title FROM birds WHERE length(title) = 4
;
DROP INDEX stats_length ON birds
;
CREATE INDEX stats_regexp_replace ON birds USING column_stats(title) OPTIONS (expr = 'regexp_replace', pattern = '[aeiou]', replacement = '-')
;
SELECT bird, title FROM birds WHERE regexp_replace(title, '[aeiou]', '-') = 'G-ll'
;
DROP INDEX stats_regexp_replace ON birds
;
CREATE INDEX stats_regexp_extract ON birds USING column_stats(title) OPTIONS (expr = 'regexp_extract', pattern = '([A-Z])', idx = '1')
;
SELECT bird, title FROM birds WHERE regexp_extract(title, '([A-Z])', 1) = 'H'
;
DROP INDEX stats_regexp_extract ON birds
;
CREATE INDEX stats_split ON birds USING column_stats(title) OPTIONS (expr = 'split', pattern = 'e')
;
SELECT bird, title FROM birds WHERE split(title, 'e')[0] = 'H'
;
DROP INDEX stats_split ON birds
;
CREATE INDEX stats_identity ON birds USING column_stats(grams) OPTIONS (expr = 'identity')
;
SELECT bird, title FROM birds WHERE grams > 350
;
CREATE INDEX bloom_identity ON birds USING bloom_filters(title) OPTIONS (expr = 'identity')
;
SELECT bird, title FROM birds WHERE title = 'Gull'
;
CREATE INDEX bloom_lower ON birds USING bloom_filters(title) OPTIONS (expr = 'lower', numentries = '1000', fpp = '0.01')
;
SELECT bird, title FROM birds WHERE lower(title) = 'owlf'
;
DROP INDEX bloom_lower ON birds
;
SHOW INDEXES FROM birds
;
INSERT INTO birds VALUES (5, 'Kite', 'vv', 500, 1000400000, '2005-05-05', TIMESTAMP '2005-05-05 05:00:00', 'wood')
;
SELECT bird, title FROM birds WHERE title = 'Kite'
;
SELECT bird FROM birds WHERE grams > 450
;
UPDATE birds SET title = 'Lark' WHERE title = 'Kite'
;
SELECT bird, title FROM birds WHERE title = 'Lark'
;
SELECT bird, title FROM birds WHERE title = 'Kite'
;
DELETE FROM birds WHERE grams < 150
;
SELECT bird, title, grams FROM birds
;
CREATE INDEX wrong ON birds USING column_stats(title) OPTIONS (expr = 'reverse')
;
CREATE INDEX wrong ON birds USING bloom_filters(missing) OPTIONS (expr = 'lower')
;
CREATE INDEX wrong ON birds USING column_stats(title)
;
RESET
;
