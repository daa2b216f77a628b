"""Take a job elsewhere: bundle it, submit it to a cluster, describe its deployment.

May import everything below operations.
Start reading at `bundle.build_bundle`.
"""
