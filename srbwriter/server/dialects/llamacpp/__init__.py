"""llama.cpp's own dialect, as its server speaks it. Knows no other dialect."""
