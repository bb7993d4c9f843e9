"""tests/control/test_exec.py and test_stdin.py on the plain driver: what a link has to do with."""

from test_exec import *     # noqa: F403
from test_stdin import *    # noqa: F403

# These look at all processes of the host or at a cgroup, or take long and do not depend on the driver.
for name in ("test_the_end_of_the_first_process_ends_the_program test_descendants_that_may_live_on "
             "test_usage_counts_everything_and_is_final test_the_window test_a_timeout_ends_the_whole_tree").split():
    del globals()[name]
