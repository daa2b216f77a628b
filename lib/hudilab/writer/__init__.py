"""Write the micro-batches of a stream to a Hudi table exactly once.

May import the ground only (errors, paths, formats, waiting): no settings, no S3, no finder of Java.
Start reading at `ledger.BatchLedger`; `rules` decides what it may write, without Spark.
"""
