/* exec_report — an exec as JSON: in replies, in notifications and in the status file.
 *
 * Notifications are sent at the end of a loop turn, at most one of each kind per exec and turn. While the
 * daemon does not read, they stay pending. A reply that lists an exec replaces its pending notifications. */
#pragma once

#include "base/err.h"
#include "base/json.h"

struct exec;
struct execs;
struct request;

enum exec_notice { NOTICE_EXITED, NOTICE_GREW, NOTICE_STDIN_ROOM, NOTICE_COUNT };

/* Marks the notification as pending, to be sent at the end of the loop turn. */
void exec_report_set(struct exec *x, enum exec_notice notice);
/* Sends pending notifications, as many as the link takes. */
void exec_report_send_all(struct execs *all);

/* Writes the members of the exec_state object. The caller has opened the JSON object. */
void exec_report_write(const struct exec *x, struct json_out *o);
/* Writes the whole exec_state object as it is once the exec has exited. */
void exec_report_write_exited(const struct exec *x, struct json_out *o);
/* Writes the member `execs`: the execs after `after` (NULL: from the first), or just `only` if it is
 * not NULL. Writes `more` when the execs do not fit into one message. */
void exec_report_write_list(struct execs *all, struct json_out *o, struct exec *only,
                            struct exec *after);

int exec_report_method_status(struct request *r, struct err *e);
