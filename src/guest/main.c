/* berm-guest — PID 1 of a sandbox. It starts programs, keeps their output and exit status, opens files, reaps
 * orphans, and outlives its daemon until the lease expires.
 *
 *   berm-guest [--fd N] [--lease-ms N]   listens on a bound Unix socket, descriptor 3 by default
 *   berm-guest --stdio                   speaks on stdin and stdout
 *   berm-guest --version */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/usage.h"
#include "guest/life.h"

static const char usage[] =
    "usage: berm-guest [--stdio | --fd N] [--lease-ms N]\n"
    "PID 1 of a sandbox: speaks JSON-RPC 2.0 as in spec/guest.md. berm-spawn starts it.\n"
    "  --stdio        speak on standard input and output, to one peer\n"
    "  --fd N         listen on this bound Unix socket (default 3)\n"
    "  --lease-ms N   exit after this time without a connection (default 86400000); 0: never\n";

static int main_refuse_options(void) {
    fprintf(stderr, "berm-guest: unknown option, or an option without its number\n%s", usage);
    return 2;
}

static int main_read_options(int argc, char **argv, struct life_options *o) {
    *o = (struct life_options){.fd = 3, .lease_ms = LIFE_LEASE_DEFAULT_MS};
    for (int i = 1; i < argc; i++) {
        uint64_t value = 0;
        if (strcmp(argv[i], "--stdio") == 0) {
            o->stdio = true;
            continue;
        }
        if (i + 1 == argc || str_to_u64(str_of(argv[i + 1]), 0, INT64_MAX, &value) < 0)
            return main_refuse_options();
        if (strcmp(argv[i], "--fd") == 0 && value <= INT32_MAX)
            o->fd = (int)value;
        else if (strcmp(argv[i], "--lease-ms") == 0)
            o->lease_ms = value;
        else
            return main_refuse_options();
        i++;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct life_options o;
    if (usage_answered(argc, argv, usage))
        return 0;
    int bad = main_read_options(argc, argv, &o);
    if (bad)
        return bad;
    int r = life_run(&o);
    if (r == 0)
        return 0;
    fprintf(stderr, "berm-guest: cannot start: %s\n", strerror(-r));
    return 1;
}
