"""What the HTTP server costs over the engine it serves, and whether it holds up."""
