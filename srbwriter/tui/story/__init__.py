"""Screens and work on the whole story: find, read, lore, import and export."""
