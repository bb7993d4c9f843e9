"""Berm for agent frameworks; each module needs its framework installed."""
