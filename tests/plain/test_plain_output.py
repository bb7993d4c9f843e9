"""tests/control/test_output.py on the plain driver."""

from test_output import *     # noqa: F403
