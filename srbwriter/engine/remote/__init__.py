"""Models that run elsewhere: the same requests, branches and verbs on another program's engine.

Speaks HTTP through httpx and must never load llama.cpp. What the other side cannot do is made of what it can
(a verb is a new request that goes on from the branch's tokens), or refused in words.
"""
