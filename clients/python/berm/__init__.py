"""Berm for Python: every agent its own computer."""

from berm import errors
from berm.errors import *  # noqa: F403

__all__ = list(errors.__all__)
