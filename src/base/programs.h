/* programs — the default PATH of a sandbox. */
#pragma once

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
