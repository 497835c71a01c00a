/* fake_libc.h - a libc below the core that is slow, refuses, or counts. */
#ifndef FAKE_LIBC_H
#define FAKE_LIBC_H

#include <stdbool.h>

/* While set, the core's pread waits here; fake_pread_waiting until it does. */
void fake_hold_pread(bool hold);
void fake_pread_waiting(void);

/* While set, getrandom fails with ENOSYS. */
void fake_no_random(bool none);

/* How often malloc, calloc and realloc were called, by the core and by the test. */
unsigned int fake_heap_uses(void);

#endif
