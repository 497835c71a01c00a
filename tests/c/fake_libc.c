#include "fake_libc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

#include "check.h"

#define LIMIT_S 20

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool hold_pread, pread_held;
static atomic_uint heap_uses;
static atomic_bool no_random;

ssize_t __real_pread(int fd, void *buffer, size_t count, off_t offset);
ssize_t __wrap_pread(int fd, void *buffer, size_t count, off_t offset);
ssize_t __real_getrandom(void *buffer, size_t count, unsigned int flags);
ssize_t __wrap_getrandom(void *buffer, size_t count, unsigned int flags);
void *__real_malloc(size_t length);
void *__wrap_malloc(size_t length);
void *__real_calloc(size_t count, size_t length);
void *__wrap_calloc(size_t count, size_t length);
void *__real_realloc(void *memory, size_t length);
void *__wrap_realloc(void *memory, size_t length);

static void wait_changed(void)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += LIMIT_S;
	CHECK_EQUAL(pthread_cond_timedwait(&changed, &lock, &limit), 0);
}

ssize_t __wrap_pread(int fd, void *buffer, size_t count, off_t offset)
{
	pthread_mutex_lock(&lock);
	while (hold_pread) {
		pread_held = true;
		pthread_cond_broadcast(&changed);
		wait_changed();
	}
	pread_held = false;
	pthread_mutex_unlock(&lock);
	return __real_pread(fd, buffer, count, offset);
}

void fake_hold_pread(bool hold)
{
	pthread_mutex_lock(&lock);
	hold_pread = hold;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void fake_pread_waiting(void)
{
	pthread_mutex_lock(&lock);
	while (!pread_held)
		wait_changed();
	pthread_mutex_unlock(&lock);
}

ssize_t __wrap_getrandom(void *buffer, size_t count, unsigned int flags)
{
	if (atomic_load(&no_random)) {
		errno = ENOSYS;
		return -1;
	}
	return __real_getrandom(buffer, count, flags);
}

void fake_no_random(bool none)
{
	atomic_store(&no_random, none);
}

void *__wrap_malloc(size_t length)
{
	atomic_fetch_add(&heap_uses, 1);
	return __real_malloc(length);
}

void *__wrap_calloc(size_t count, size_t length)
{
	atomic_fetch_add(&heap_uses, 1);
	return __real_calloc(count, length);
}

void *__wrap_realloc(void *memory, size_t length)
{
	atomic_fetch_add(&heap_uses, 1);
	return __real_realloc(memory, length);
}

unsigned int fake_heap_uses(void)
{
	return atomic_load(&heap_uses);
}
