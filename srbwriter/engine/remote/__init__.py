"""Models on another server: the same requests, branches and verbs on another program's engine.

Speaks HTTP through httpx and must never load llama.cpp. A verb that the server lacks becomes a new request
that continues from the branch's tokens; everything else that it lacks is refused with a reason.
"""
