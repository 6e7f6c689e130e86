"""The only room that imports llama_cpp: thin, typed, every return code checked. Knows no requests."""
