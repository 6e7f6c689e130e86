"""The instruments of a session, one line each. Deleting its line and its module removes an instrument."""

from __future__ import annotations

from . import ahead as ahead
from . import autorun as autorun
from . import bans as bans
from . import loops as loops
from . import openings as openings
from . import rewriting as rewriting
from . import steering as steering
from . import tokens as tokens
from . import variety as variety
from . import wishes as wishes
from .instrument import Instrument

INSTRUMENTS: tuple[type[Instrument], ...] = tuple(Instrument.__subclasses__())
