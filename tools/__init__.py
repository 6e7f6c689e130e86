"""Tools for developers of srbwriter; the package imports none of them."""
