"""tests/control/test_lifecycle.py on the plain driver: what converge does."""

from test_lifecycle import (    # noqa: F401
    test_a_sandbox_ends_with_its_time, test_an_answer_without_waiting_comes_at_once_and_the_events_tell_the_rest,
    test_an_exec_id_is_never_given_twice, test_an_id_is_never_given_twice, test_delete_by_labels,
    test_delete_of_one_that_is_being_made, test_ids_that_are_taken, test_later_calls_see_the_outcome_of_earlier_ones,
    test_lists_by_state, test_of_two_creates_of_one_id_one_is_accepted, test_of_two_programs_of_one_id_one_is_accepted,
    test_stop_at_once, test_what_is_not_there)
