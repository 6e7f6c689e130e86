"""Tools for people who work on srbwriter; nothing here is imported by the package."""
