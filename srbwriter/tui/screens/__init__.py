"""The screens of the terminal app, one per module."""
