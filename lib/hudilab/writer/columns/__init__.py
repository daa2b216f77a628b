"""Columns: which a table can store, and which changes of them it takes.

Imports only errors: a schema is text here.
Start reading at `storable.check_storable` and `drift.check_drift`.
"""
