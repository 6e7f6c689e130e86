"""What tests put in the place of a model, a session, a hub, a disk, or llama.cpp's programs."""
