"""Dialogs above the write screen."""
