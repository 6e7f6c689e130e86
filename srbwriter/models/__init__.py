"""Model files: those on this machine, the memory they need, and downloads.

Reads headers, never weights. It uses paths, files and the hub's HTTP interface; it never imports an engine, a
story or a face.
"""
