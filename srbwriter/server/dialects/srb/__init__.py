"""The single-request-batching dialect: event lines for n branches, and handles on running ones."""
