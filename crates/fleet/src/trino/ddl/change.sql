CREATE SCHEMA IF NOT EXISTS "hive"."v1";
DROP TABLE IF EXISTS "hive"."v1"."change_files";
CREATE TABLE "hive"."v1"."change_files" (
    "host" varchar,
    "at" timestamp(3),
    "kind" varchar,
    "name" varchar,
    "old" varchar,
    "new" varchar,
    "day" varchar WITH (partition_projection_type = 'date', partition_projection_format = 'yyyy-MM-dd',
        partition_projection_range = ARRAY['NOW-3660DAYS', 'NOW']),
    "hour" varchar WITH (partition_projection_type = 'integer', partition_projection_range = ARRAY['0', '23'],
        partition_projection_digits = 2)
) WITH (format = 'PARQUET', external_location = 's3://metrics/why''s/v1/compacted/change/', partitioned_by = ARRAY['day', 'hour'],
    partition_projection_enabled = true);
CREATE OR REPLACE VIEW "hive"."v1"."change" SECURITY INVOKER AS
SELECT files."host", files."at", files."kind", files."name", files."old", files."new", files."day", files."hour"
FROM "hive"."v1"."change_files" files JOIN (
    SELECT "day", "hour", MAX_BY(path, CAST(REGEXP_EXTRACT(path, '([0-9]+)\.parquet$', 1) AS BIGINT)) AS path
    FROM (SELECT DISTINCT "day", "hour", "$path" AS path FROM "hive"."v1"."change_files" WHERE "$file_modified_time" < CURRENT_TIMESTAMP)
    GROUP BY "day", "hour"
) newest ON files."$path" = newest.path AND files."day" = newest."day" AND files."hour" = newest."hour";
