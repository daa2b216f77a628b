"""The lessons' pipelines as programs of their own, for a terminal and for spark-submit."""
