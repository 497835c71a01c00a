/* Soft lanes of two processes of one host: of one user, of two, and when one is killed. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local_pair.h"

#define NOBODY 65534

/* What a child tells its parent of its end. */
struct story {
	struct dp_peer peer;
	struct dp_remote memory;
};

/* A process with one end: it says where it is, connects to who answers, and posts a receive. */
static void be_peer(int parent)
{
	const struct dp_fabric_options options = local_options();
	struct story story;
	struct dp_peer ours;
	struct end end;

	open_end(&end, &options, 9);
	CHECK_EQUAL(dp_lane_prepare(end.lane, 9, ALL_ACCESS), 0);
	memset(end.memory, 0x42, LENGTH);
	story = (struct story){ end_as_peer(&end), end_as_remote(&end) };
	CHECK_EQUAL(send(parent, &story, sizeof(story), 0), sizeof(story));
	CHECK_EQUAL(recv(parent, &ours, sizeof(ours), 0), sizeof(ours));
	CHECK_EQUAL(dp_lane_connect(end.lane, &ours), 0);
	CHECK(dp_lane_receive(end.lane) >= 0);
	CHECK_EQUAL(send(parent, &story, sizeof(story), 0), sizeof(story));
	for (;;)
		pause();
}

/* A child that is a peer, as @user; @out is the way to it. */
static pid_t spawn_peer(uid_t user, int *out)
{
	int sockets[2];
	pid_t child;

	CHECK_EQUAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
	child = fork();
	if (child == 0) {
		CHECK_EQUAL(setuid(user), 0);
		be_peer(sockets[1]);
	}
	close(sockets[1]);
	*out = sockets[0];
	return child;
}

static void connect_to_child(struct end *end, int child, struct story *story)
{
	struct dp_peer self = end_as_peer(end);
	struct story done;

	CHECK_EQUAL(recv(child, story, sizeof(*story), 0), sizeof(*story));
	CHECK_EQUAL(dp_lane_prepare(end->lane, end->psn, DP_ACCESS_NONE), 0);
	CHECK_EQUAL(dp_lane_connect(end->lane, &story->peer), 0);
	CHECK_EQUAL(send(child, &self, sizeof(self), 0), sizeof(self));
	CHECK_EQUAL(recv(child, &done, sizeof(done), 0), sizeof(done));
}

/* READ, WRITE, and a WRITE that hangs until the other process is killed. */
static void check_process(uid_t user, bool expected_direct)
{
	const struct dp_fabric_options options = local_options();
	struct story story;
	struct end end;
	int channel, status;
	pid_t child = spawn_peer(user, &channel);

	open_end(&end, &options, 4);
	connect_to_child(&end, channel, &story);
	CHECK_EQUAL(dp_lane_read(end.lane, LENGTH, &story.memory), 0);
	CHECK_EQUAL(next_event(&end).bytes, LENGTH);
	check_untouched(&end, 0x42);
	CHECK_EQUAL(goes_direct(end.lane), expected_direct);
	CHECK_EQUAL(dp_lane_write(end.lane, LENGTH, &story.memory, PAIR_COOKIE), 0);
	CHECK_EQUAL(next_event(&end).status, 0);
	/* No receive is left there. */
	CHECK_EQUAL(dp_lane_write(end.lane, LENGTH, &story.memory, PAIR_COOKIE), 0);
	CHECK_EQUAL(kill(child, SIGKILL), 0);
	check_failed(&end, DP_EVENT_WRITTEN, IBV_WC_RETRY_EXC_ERR);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	close(channel);
	dp_fabric_close(&end.fabric);
	free(end.memory);
}

static void another_process_is_read_and_its_death_noticed(void)
{
	check_process(geteuid(), direct);
}

/* Only root can be two users. */
static void another_users_process_is_not_read_but_served(void)
{
	if (geteuid() == 0)
		check_process(NOBODY, false);
}

int main(void)
{
	direct = true;
	RUN(another_process_is_read_and_its_death_noticed);
	RUN(another_users_process_is_not_read_but_served);
	direct = false;
	RUN(another_process_is_read_and_its_death_noticed);
	return 0;
}
