"""tests/control/test_restart.py on the plain driver: kill -9 of the daemon, and what the next one makes of it."""

import os

from test_restart import (      # noqa: F401
    test_a_clean_stop_leaves_sandboxes_running, test_a_guest_in_which_nothing_ran_goes_while_no_daemon_runs,
    test_a_kill_before_it_listens, test_a_program_that_ends_while_no_daemon_runs,
    test_a_reader_resumes_by_offset_across_kills, test_a_running_program_is_adopted, test_a_start_that_was_on_its_way,
    test_many_kills_in_a_row, test_states_on_their_way_are_finished, test_stop_sandboxes_ends_them,
    test_the_guest_goes_while_no_daemon_runs, test_what_has_no_record_is_swept)

if os.environ.get("BERM_PLAIN_LINK") != "bytes":    # the guest writes the status file itself
    from test_restart import test_an_exit_written_before_the_guest_went     # noqa: F401
