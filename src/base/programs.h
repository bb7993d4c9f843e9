/* programs — where programs are looked for in a sandbox that says nothing else. */
#pragma once

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
