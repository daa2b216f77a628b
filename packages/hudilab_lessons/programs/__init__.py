"""Programs that a lesson runs in a separate process, by the name of their module."""
