"""One file a dialect: what its bodies ask for, how its answers and chunks look, and its paths."""
