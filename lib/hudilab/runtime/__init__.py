"""From settings to a Spark session and the places of tables, on a laptop, a cluster and S3.

May import the ground and the writer.
Start reading at `session.open_session`; `settings` holds what it is given, and `spark_conf` says
which Spark settings follow.
"""
