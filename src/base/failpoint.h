/* failpoint — named moments at which a test may end the process. */
#pragma once

/* Does nothing unless this program was started with the name armed. */
void failpoint(const char *name);
