/* verbs.c - find libibverbs at run time, so that one build runs with and without it. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "verbs.h"

#define LIBRARY "libibverbs.so.1"

/* A symbol, the version that has today's meaning, and its place in struct dp_verbs. */
struct symbol {
	const char *name;
	const char *version;
	size_t offset;
};

#define SYMBOL(text, since, member)                                                                \
	{ .name = (text), .version = (since), .offset = offsetof(struct dp_verbs, member) }

/* Names are strings because the header makes macros of some (ibv_reg_mr, ibv_query_port). */
static const struct symbol SYMBOLS[] = {
	SYMBOL("ibv_get_device_list", "IBVERBS_1.1", get_device_list),
	SYMBOL("ibv_free_device_list", "IBVERBS_1.1", free_device_list),
	SYMBOL("ibv_open_device", "IBVERBS_1.1", open_device),
	SYMBOL("ibv_close_device", "IBVERBS_1.1", close_device),
	SYMBOL("ibv_query_device", "IBVERBS_1.1", query_device),
	SYMBOL("ibv_query_port", "IBVERBS_1.1", query_port),
	SYMBOL("_ibv_query_gid_ex", "IBVERBS_1.11", query_gid_ex),
	SYMBOL("_ibv_query_gid_table", "IBVERBS_1.11", query_gid_table),
	SYMBOL("ibv_alloc_pd", "IBVERBS_1.1", alloc_pd),
	SYMBOL("ibv_dealloc_pd", "IBVERBS_1.1", dealloc_pd),
	SYMBOL("ibv_reg_mr", "IBVERBS_1.1", register_mr),
	SYMBOL("ibv_dereg_mr", "IBVERBS_1.1", deregister_mr),
	SYMBOL("ibv_create_comp_channel", "IBVERBS_1.0", create_comp_channel),
	SYMBOL("ibv_destroy_comp_channel", "IBVERBS_1.0", destroy_comp_channel),
	SYMBOL("ibv_create_cq", "IBVERBS_1.1", create_cq),
	SYMBOL("ibv_destroy_cq", "IBVERBS_1.1", destroy_cq),
	SYMBOL("ibv_get_cq_event", "IBVERBS_1.1", get_cq_event),
	SYMBOL("ibv_ack_cq_events", "IBVERBS_1.1", ack_cq_events),
	SYMBOL("ibv_get_async_event", "IBVERBS_1.1", get_async_event),
	SYMBOL("ibv_ack_async_event", "IBVERBS_1.1", ack_async_event),
	SYMBOL("ibv_create_qp", "IBVERBS_1.1", create_qp),
	SYMBOL("ibv_modify_qp", "IBVERBS_1.1", modify_qp),
	SYMBOL("ibv_query_qp", "IBVERBS_1.1", query_qp),
	SYMBOL("ibv_destroy_qp", "IBVERBS_1.1", destroy_qp),
};

#define SYMBOL_COUNT (sizeof(SYMBOLS) / sizeof(SYMBOLS[0]))

_Static_assert(sizeof(struct dp_verbs) == SYMBOL_COUNT * sizeof(void *),
	       "every member of struct dp_verbs has its symbol");

/*
 * dp_verbs_load - fill @verbs.
 *
 * The library stays loaded for good: its providers can't be unloaded. Returns 0, -ELIBACC (it
 * is not there), -ELIBBAD (it lacks a symbol: rdma-core before 32).
 */
int dp_verbs_load(struct dp_verbs *verbs)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!library)
		return -ELIBACC;
	for (size_t i = 0; i < SYMBOL_COUNT; i++) {
		void *address = dlvsym(library, SYMBOLS[i].name, SYMBOLS[i].version);

		if (!address) {
			dlclose(library);
			return -ELIBBAD;
		}
		/* ISO C has no cast from void * to a function pointer; POSIX has the same bits. */
		memcpy((char *)verbs + SYMBOLS[i].offset, &address, sizeof(address));
	}
	return 0;
}
