"""How each kind of server is spoken to. They share :mod:`.base`, never each other."""
