#include "guest/exec/exec_state.h"

#include <assert.h>
#include <stdint.h>

#define TO(state) ((uint8_t)(1u << (state)))

/* Each table row holds the bits of the states that may follow. */
static void exec_state_check(const uint8_t *table, unsigned from, unsigned to) {
    assert(table[from] & TO(to));
    (void)table; /* for builds without assertions */
    (void)from;
    (void)to;
}

void exec_state_set_life(enum exec_life *at, enum exec_life to) {
    static const uint8_t table[EXEC_LIFE_COUNT] = {
        [EXEC_STARTING] = TO(EXEC_RUNNING) | TO(EXEC_RECORDING),
        [EXEC_RUNNING] = TO(EXEC_DRAINING),
        [EXEC_DRAINING] = TO(EXEC_RECORDING),
        [EXEC_RECORDING] = TO(EXEC_EXITED),
        [EXEC_EXITED] = TO(EXEC_LINGERING) | TO(EXEC_FREED),
        [EXEC_LINGERING] = TO(EXEC_FREED),
    };
    exec_state_check(table, *at, to);
    *at = to;
}

void exec_state_set_processes(enum exec_processes *at, enum exec_processes to) {
    static const uint8_t table[PROCESSES_COUNT] = {
        [PROCESSES_NONE] = TO(PROCESSES_LEADER),
        [PROCESSES_LEADER] = TO(PROCESSES_REPORTED) | TO(PROCESSES_DESCENDANTS),
        [PROCESSES_REPORTED] = TO(PROCESSES_DESCENDANTS),
        [PROCESSES_DESCENDANTS] = TO(PROCESSES_NONE),
    };
    exec_state_check(table, *at, to);
    *at = to;
}

void exec_state_set_cause(enum exec_cause *at, enum exec_cause to) {
    static const uint8_t table[CAUSE_COUNT] = {
        [CAUSE_NONE] = TO(CAUSE_TIMEOUT) | TO(CAUSE_OUTPUT_LIMIT),
        [CAUSE_TIMEOUT] = TO(CAUSE_OUTPUT_LIMIT),
    };
    exec_state_check(table, *at, to);
    *at = to;
}

void exec_state_set_kill(enum exec_kill *at, enum exec_kill to) {
    static const uint8_t table[KILL_COUNT] = {
        [KILL_NONE] = TO(KILL_LEADER) | TO(KILL_DESCENDANTS),
    };
    exec_state_check(table, *at, to);
    *at = to;
}

void exec_state_set_stream(enum exec_stream *at, enum exec_stream to) {
    static const uint8_t table[STREAM_STATE_COUNT] = {
        [STREAM_CLOSED] = TO(STREAM_OPEN),
        [STREAM_OPEN] = TO(STREAM_PARKED) | TO(STREAM_CLOSED),
        [STREAM_PARKED] = TO(STREAM_OPEN) | TO(STREAM_CLOSED),
    };
    exec_state_check(table, *at, to);
    *at = to;
}

void exec_state_set_disk(enum exec_disk *at, enum exec_disk to) {
    static const uint8_t table[DISK_COUNT] = {
        [DISK_WRITABLE] = TO(DISK_FULL),
        [DISK_FULL] = TO(DISK_WRITABLE) | TO(DISK_LOSSY),
    };
    exec_state_check(table, *at, to);
    *at = to;
}

void exec_state_set_stdin(enum exec_stdin *at, enum exec_stdin to) {
    static const uint8_t table[STDIN_COUNT] = {
        [STDIN_OPEN] = TO(STDIN_CLOSING) | TO(STDIN_BROKEN) | TO(STDIN_CLOSED),
        [STDIN_CLOSING] = TO(STDIN_CLOSED),
        [STDIN_BROKEN] = TO(STDIN_CLOSING) | TO(STDIN_CLOSED),
    };
    exec_state_check(table, *at, to);
    *at = to;
}
