"""Programs that a lesson runs in a separate process: it starts them by the name of their module."""
