"""An engine elsewhere through this program, beside a plain client of the same engine."""
