"""What the instruments bring a writer, and what they cost: one part each, over the bundled model."""
