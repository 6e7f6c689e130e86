"""The tree of all branches ever written."""
