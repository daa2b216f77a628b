"""Show an inspection as text in a terminal, or as one HTML page.

May import the ground and the inspector's model. Start reading at `text.view`.
"""
