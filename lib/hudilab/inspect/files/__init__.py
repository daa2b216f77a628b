"""List and read a table's files, on disk and S3: bytes, Parquet's footers, Parquet's rows.

May import the ground. Start reading at `store.open_store`.
"""
