/*
 * fault_shim.c - LD_PRELOAD: the file-system calls below one directory, counted, stopped, failed,
 * shortened, recorded.
 *
 * The process under test asks for it itself (ctypes): shim_watch() names the directory and where to
 * record, shim_arm() says what happens at which call, shim_disarm() ends it. Calls that change
 * something are made and recorded one at a time, so that the record is in the order of what happened.
 * The record is what power_cut.py reads.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { MAX_FDS = 4096 };
enum action { NOTHING, KILL, FAIL_ONCE, FAIL_ON, SHORTEN };
enum call_class { CHANGES = 1, LOOKS = 2 };
enum record_kind {
	CREATED = 'c',
	UNNAMED = 't',
	WROTE = 'w',
	SIZED = 's',
	LINKED = 'l',
	RENAMED = 'r',
	UNLINKED = 'u',
	MADE_DIR = 'd',
	SYNCED = 'f',
	GREW = 'g',
	STAMPED = 'm',
	DESCRIBED = 'x',
	UNDESCRIBED = 'y'
};

struct record {
	uint64_t inode;
	uint64_t at;     /* offset or length */
	uint32_t length; /* of what follows: a path, two of them, or data */
	uint8_t kind;
} __attribute__((packed));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static int log_fd = -1;
static uint64_t inode_of[MAX_FDS]; /* 0: not below root */
static enum action action;
static long at_call, calls;
static int error_number, classes;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void shim_watch(const char *directory, const char *log_path)
{
	snprintf(root, sizeof(root), "%s", directory);
	if (log_path)
		log_fd = REAL(open)(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

void shim_arm(int what, long call, int error, int which)
{
	pthread_mutex_lock(&lock);
	action = (enum action)what;
	at_call = call;
	error_number = error;
	classes = which;
	calls = 0;
	pthread_mutex_unlock(&lock);
}

/* Returns how many calls were counted since shim_arm(). */
long shim_disarm(void)
{
	pthread_mutex_lock(&lock);
	action = NOTHING;
	long counted = calls;
	pthread_mutex_unlock(&lock);
	return counted;
}

static bool below_root(const char *path)
{
	size_t length = strlen(root);
	return length && strncmp(path, root, length) == 0 &&
	       (path[length] == '/' || path[length] == '\0');
}

static uint64_t watched(int fd)
{
	return fd >= 0 && fd < MAX_FDS ? inode_of[fd] : 0;
}

/* The path that a call with a directory descriptor means; whether it is below root. */
static bool resolve(int directory, const char *path, char out[PATH_MAX])
{
	if (path[0] == '/' || directory == AT_FDCWD) {
		snprintf(out, PATH_MAX, "%s", path);
	} else {
		char link[64], base[PATH_MAX];
		snprintf(link, sizeof(link), "/proc/self/fd/%d", directory);
		ssize_t length = readlink(link, base, sizeof(base) - 1);
		if (length < 0)
			return false;
		base[length] = '\0';
		if ((size_t)snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX)
			return false;
	}
	return below_root(out);
}

/* Count one call, under the lock. Returns whether it fails, with errno set; kills; sets *half. */
static bool step(enum call_class class, bool *half)
{
	if (action == NOTHING || !(classes & (int)class))
		return false;
	calls++;
	if (calls < at_call || (calls > at_call && action != FAIL_ON))
		return false;
	switch (action) {
	case KILL:
		kill(getpid(), SIGKILL);
		for (;;)
			pause();
	case SHORTEN:
		if (half)
			*half = true;
		return false;
	default:
		errno = error_number;
		return true;
	}
}

static void record(enum record_kind kind, uint64_t inode, uint64_t at, const void *data,
		   size_t length)
{
	if (log_fd < 0)
		return;
	struct record head = { inode, at, (uint32_t)length, (uint8_t)kind };
	struct iovec both[2] = { { &head, sizeof(head) }, { (void *)data, length } };
	int saved = errno;
	if (writev(log_fd, both, 2) != (ssize_t)(sizeof(head) + length))
		abort();
	errno = saved;
}

static void record_path(enum record_kind kind, uint64_t inode, const char *path)
{
	record(kind, inode, 0, path, strlen(path));
}

static void track(int fd, const char *path, int flags, bool existed)
{
	struct stat status;
	if (fd >= MAX_FDS || fstat(fd, &status))
		abort();
	inode_of[fd] = status.st_ino;
	if ((flags & O_TMPFILE) == O_TMPFILE)
		record(UNNAMED, status.st_ino, 0, "", 0);
	else if ((flags & O_CREAT) && !existed)
		record_path(CREATED, status.st_ino, path);
	else if (flags & O_TRUNC)
		record(SIZED, status.st_ino, 0, "", 0);
}

static int do_openat(int directory, const char *path, int flags, mode_t mode)
{
	char whole[PATH_MAX];
	if (!resolve(directory, path, whole))
		return REAL(openat)(directory, path, flags, mode);
	bool makes = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
	int fd = -1;
	pthread_mutex_lock(&lock);
	if (!step(makes ? CHANGES : LOOKS, NULL)) {
		bool existed = access(whole, F_OK) == 0;
		fd = REAL(openat)(directory, path, flags, mode);
		if (fd >= 0)
			track(fd, whole, flags, existed);
	}
	pthread_mutex_unlock(&lock);
	return fd;
}

#define OPEN(name, DIRECTORY, ...)                                                                 \
	int name(__VA_ARGS__, ...)                                                                 \
	{                                                                                          \
		mode_t mode = 0;                                                                   \
		if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                       \
			va_list rest;                                                              \
			va_start(rest, flags);                                                     \
			mode = va_arg(rest, mode_t);                                               \
			va_end(rest);                                                              \
		}                                                                                  \
		return do_openat(DIRECTORY, path, flags, mode);                                    \
	}

OPEN(open, AT_FDCWD, const char *path, int flags)
OPEN(open64, AT_FDCWD, const char *path, int flags)
OPEN(openat, directory, int directory, const char *path, int flags)
OPEN(openat64, directory, int directory, const char *path, int flags)

int close(int fd)
{
	if (watched(fd))
		inode_of[fd] = 0;
	return REAL(close)(fd);
}

static ssize_t do_write(int fd, const void *data, size_t length, off_t at, bool positioned)
{
	uint64_t inode = watched(fd);
	if (!inode)
		return positioned ? REAL(pwrite)(fd, data, length, at)
				  : REAL(write)(fd, data, length);
	ssize_t done = -1;
	bool half = false;
	pthread_mutex_lock(&lock);
	if (!step(CHANGES, &half)) {
		if (!positioned)
			at = lseek(fd, 0, SEEK_CUR);
		if (half && length > 1)
			length /= 2;
		done = positioned ? REAL(pwrite)(fd, data, length, at)
				  : REAL(write)(fd, data, length);
		if (done > 0)
			record(WROTE, inode, (uint64_t)at, data, (size_t)done);
	}
	pthread_mutex_unlock(&lock);
	return done;
}

ssize_t write(int fd, const void *data, size_t length)
{
	return do_write(fd, data, length, 0, false);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at)
{
	return do_write(fd, data, length, at, true);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off_t at)
{
	return do_write(fd, data, length, at, true);
}

static bool look_fails(int fd)
{
	bool fails = false;
	if (watched(fd)) {
		pthread_mutex_lock(&lock);
		fails = step(LOOKS, NULL);
		pthread_mutex_unlock(&lock);
	}
	return fails;
}

ssize_t pread(int fd, void *data, size_t length, off_t at)
{
	return look_fails(fd) ? -1 : REAL(pread)(fd, data, length, at);
}

ssize_t pread64(int fd, void *data, size_t length, off_t at)
{
	return look_fails(fd) ? -1 : REAL(pread)(fd, data, length, at);
}

ssize_t preadv64v2(int fd, const struct iovec *vector, int count, off_t at, int flags)
{
	return look_fails(fd) ? -1 : REAL(preadv64v2)(fd, vector, count, at, flags);
}

/* One call that changes what `fd` is: made and recorded under the lock, unless it is to fail. */
#define CHANGE_FD(CALL, RECORD)                                                                    \
	do {                                                                                       \
		uint64_t inode = watched(fd);                                                      \
		if (!inode)                                                                        \
			return CALL;                                                               \
		int result = -1;                                                                   \
		pthread_mutex_lock(&lock);                                                         \
		if (!step(CHANGES, NULL)) {                                                        \
			result = CALL;                                                             \
			if (result == 0)                                                           \
				RECORD;                                                            \
		}                                                                                  \
		pthread_mutex_unlock(&lock);                                                       \
		return result;                                                                     \
	} while (0)

int fsync(int fd)
{
	CHANGE_FD(REAL(fsync)(fd), record(SYNCED, inode, 0, "", 0));
}

int fdatasync(int fd)
{
	CHANGE_FD(REAL(fdatasync)(fd), record(SYNCED, inode, 0, "", 0));
}

int ftruncate(int fd, off_t length)
{
	CHANGE_FD(REAL(ftruncate)(fd, length), record(SIZED, inode, (uint64_t)length, "", 0));
}

int ftruncate64(int fd, off_t length)
{
	CHANGE_FD(REAL(ftruncate)(fd, length), record(SIZED, inode, (uint64_t)length, "", 0));
}

/* posix_fallocate(3) returns the error. */
int posix_fallocate(int fd, off_t at, off_t length)
{
	uint64_t inode = watched(fd);
	pthread_mutex_lock(&lock);
	int result = inode && step(CHANGES, NULL) ? errno : REAL(posix_fallocate)(fd, at, length);
	if (inode && result == 0)
		record(GREW, inode, (uint64_t)(at + length), "", 0);
	pthread_mutex_unlock(&lock);
	return result;
}

int posix_fallocate64(int fd, off_t at, off_t length)
{
	return posix_fallocate(fd, at, length);
}

/* One call that changes what a path is. */
#define CHANGE_PATH(DIRECTORY, PATH, CALL, RECORD)                                                 \
	do {                                                                                       \
		char whole[PATH_MAX];                                                              \
		if (!resolve(DIRECTORY, PATH, whole))                                              \
			return CALL;                                                               \
		int result = -1;                                                                   \
		pthread_mutex_lock(&lock);                                                         \
		if (!step(CHANGES, NULL)) {                                                        \
			result = CALL;                                                             \
			if (result == 0)                                                           \
				RECORD;                                                            \
		}                                                                                  \
		pthread_mutex_unlock(&lock);                                                       \
		return result;                                                                     \
	} while (0)

static void record_name(enum record_kind kind, const char *path)
{
	struct stat status;
	if (stat(path, &status))
		abort();
	record_path(kind, status.st_ino, path);
}

static void record_rename(const char *from, const char *to)
{
	char both[2 * PATH_MAX];
	int length = snprintf(both, sizeof(both), "%s%c%s", from, 0, to);
	record(RENAMED, 0, 0, both, (size_t)length);
}

int linkat(int from_directory, const char *from, int directory, const char *path, int flags)
{
	CHANGE_PATH(directory, path, REAL(linkat)(from_directory, from, directory, path, flags),
		    record_name(LINKED, whole));
}

int rename(const char *from, const char *path)
{
	CHANGE_PATH(AT_FDCWD, path, REAL(rename)(from, path), record_rename(from, whole));
}

int unlink(const char *path)
{
	CHANGE_PATH(AT_FDCWD, path, REAL(unlink)(path), record_path(UNLINKED, 0, whole));
}

int mkdir(const char *path, mode_t mode)
{
	CHANGE_PATH(AT_FDCWD, path, REAL(mkdir)(path, mode), record_name(MADE_DIR, whole));
}

/* Below: what the tree calls, which has directories open and names files within them. */

int renameat(int from_directory, const char *from, int directory, const char *path)
{
	char whole_from[PATH_MAX];
	bool known = resolve(from_directory, from, whole_from);
	CHANGE_PATH(directory, path, REAL(renameat)(from_directory, from, directory, path),
		    known ? record_rename(whole_from, whole) : abort());
}

int unlinkat(int directory, const char *path, int flags)
{
	CHANGE_PATH(directory, path, REAL(unlinkat)(directory, path, flags),
		    record_path(UNLINKED, 0, whole));
}

int mkdirat(int directory, const char *path, mode_t mode)
{
	CHANGE_PATH(directory, path, REAL(mkdirat)(directory, path, mode),
		    record_name(MADE_DIR, whole));
}

static void record_xattr(uint64_t inode, const char *name, const void *value, size_t size)
{
	char both[PATH_MAX];
	size_t length = strlen(name) + 1;
	if (length + size > sizeof(both))
		abort();
	memcpy(both, name, length);
	memcpy(both + length, value, size);
	record(DESCRIBED, inode, 0, both, length + size);
}

int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
	CHANGE_FD(REAL(fsetxattr)(fd, name, value, size, flags),
		  record_xattr(inode, name, value, size));
}

int fremovexattr(int fd, const char *name)
{
	CHANGE_FD(REAL(fremovexattr)(fd, name), record_path(UNDESCRIBED, inode, name));
}

int futimens(int fd, const struct timespec times[2])
{
	CHANGE_FD(REAL(futimens)(fd, times),
		  record(STAMPED, inode,
			 (uint64_t)times[1].tv_sec * 1000000000 + (uint64_t)times[1].tv_nsec, "",
			 0));
}

/* The record of what came to be at the end of `fd`, read back from it. */
static void record_tail(int fd, uint64_t inode, off_t at, ssize_t length)
{
	char *data = malloc((size_t)length);
	if (!data || REAL(pread)(fd, data, (size_t)length, at) != length)
		abort();
	record(WROTE, inode, (uint64_t)at, data, (size_t)length);
	free(data);
}

static ssize_t do_copy(int from, off_t *from_at, int fd, size_t length, bool sends)
{
	uint64_t inode = watched(fd);
	ssize_t done = -1;
	bool half = false;
	pthread_mutex_lock(&lock);
	if (!inode || !step(CHANGES, &half)) {
		off_t at = lseek(fd, 0, SEEK_CUR);
		length = half && length > 1 ? length / 2 : length;
		done = sends ? REAL(sendfile)(fd, from, from_at, length)
			     : REAL(copy_file_range)(from, from_at, fd, NULL, length, 0);
		if (inode && done > 0)
			record_tail(fd, inode, at, done);
	}
	pthread_mutex_unlock(&lock);
	return done;
}

ssize_t copy_file_range(int from, off_t *from_at, int fd, off_t *at, size_t length,
			unsigned int flags)
{
	if (at || flags)
		return REAL(copy_file_range)(from, from_at, fd, at, length, flags);
	return do_copy(from, from_at, fd, length, false);
}

ssize_t sendfile(int fd, int from, off_t *at, size_t length)
{
	return watched(fd) ? do_copy(from, at, fd, length, true)
			   : REAL(sendfile)(fd, from, at, length);
}

static int do_fcntl(int fd, int command, void *given)
{
	int result = REAL(fcntl)(fd, command, given);
	if (command == F_DUPFD_CLOEXEC && result >= 0 && result < MAX_FDS)
		inode_of[result] = watched(fd);
	return result;
}

#define FCNTL(name)                                                                                \
	int name(int fd, int command, ...)                                                         \
	{                                                                                          \
		va_list rest;                                                                      \
		va_start(rest, command);                                                           \
		void *given = va_arg(rest, void *);                                                \
		va_end(rest);                                                                      \
		return do_fcntl(fd, command, given);                                               \
	}

FCNTL(fcntl)
FCNTL(fcntl64)

/* openat2(2) has no function of its own in libc. */
long syscall(long number, ...)
{
	long given[6];
	va_list rest;
	va_start(rest, number);
	for (int index = 0; index < 6; index++)
		given[index] = va_arg(rest, long);
	va_end(rest);
	char whole[PATH_MAX];
	if (number != SYS_openat2 || !resolve((int)given[0], (const char *)given[1], whole))
		return REAL(syscall)(number, given[0], given[1], given[2], given[3], given[4],
				     given[5]);
	long fd = -1;
	pthread_mutex_lock(&lock);
	if (!step(LOOKS, NULL)) {
		fd = REAL(syscall)(number, given[0], given[1], given[2], given[3]);
		if (fd >= 0)
			track((int)fd, whole, 0, true);
	}
	pthread_mutex_unlock(&lock);
	return fd;
}
