"""Take a job elsewhere: bundle it, describe its deployment.

May import everything below operations.
Start reading at `bundle.build_bundle`.
"""
