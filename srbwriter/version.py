"""The version of srbwriter; packages and servers tell it."""

__version__ = "0.6.0"
