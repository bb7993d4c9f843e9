# Derived from berm/_async/__init__.py by scripts/gen-python-sync.py; do not edit.
"""The half of the package for threads; derived from berm/_async."""
