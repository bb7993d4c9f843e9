"""tests/control/test_files.py and test_files_trees.py on the plain driver: those that do not name /workspace."""

from test_files import *    # noqa: F403
from test_files_trees import *      # noqa: F403

for name in ("test_bytes_come_back test_names_are_exact test_where_paths_start test_rename test_a_directory_of_many test_grep "
             "test_glob test_others_files test_a_bomb_meets_the_disk test_changes test_names_of_any_bytes_are_told "
             "test_a_watch_ends_with_its_sandbox test_a_flood_is_a_resync").split():
    del globals()[name]
