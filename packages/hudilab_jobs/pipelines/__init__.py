"""Pipelines: their sources, previews, and reports of each batch.

Start reading at `runner.opened`.
"""
