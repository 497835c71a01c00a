/* error.c - what the numbers of verbs mean: completion statuses and QP states. */
#include <infiniband/verbs.h>

#include "dataplane.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct status_row {
	const char *name;
	enum dp_class blame;
};

/* IBTA volume 1, 11.6.2 "Completion return status"; ibv_poll_cq(3). */
static const struct status_row STATUS[] = {
	[IBV_WC_SUCCESS] = { "SUCCESS", DP_CLASS_NONE },
	[IBV_WC_LOC_LEN_ERR] = { "LOC_LEN_ERR", DP_CLASS_LOCAL },
	[IBV_WC_LOC_QP_OP_ERR] = { "LOC_QP_OP_ERR", DP_CLASS_LOCAL },
	[IBV_WC_LOC_EEC_OP_ERR] = { "LOC_EEC_OP_ERR", DP_CLASS_LOCAL },
	[IBV_WC_LOC_PROT_ERR] = { "LOC_PROT_ERR", DP_CLASS_LOCAL },
	[IBV_WC_WR_FLUSH_ERR] = { "WR_FLUSH_ERR", DP_CLASS_FLUSH },
	[IBV_WC_MW_BIND_ERR] = { "MW_BIND_ERR", DP_CLASS_LOCAL },
	[IBV_WC_BAD_RESP_ERR] = { "BAD_RESP_ERR", DP_CLASS_TRANSPORT },
	[IBV_WC_LOC_ACCESS_ERR] = { "LOC_ACCESS_ERR", DP_CLASS_LOCAL },
	[IBV_WC_REM_INV_REQ_ERR] = { "REM_INV_REQ_ERR", DP_CLASS_REMOTE },
	[IBV_WC_REM_ACCESS_ERR] = { "REM_ACCESS_ERR", DP_CLASS_REMOTE },
	[IBV_WC_REM_OP_ERR] = { "REM_OP_ERR", DP_CLASS_REMOTE },
	[IBV_WC_RETRY_EXC_ERR] = { "RETRY_EXC_ERR", DP_CLASS_TRANSPORT },
	[IBV_WC_RNR_RETRY_EXC_ERR] = { "RNR_RETRY_EXC_ERR", DP_CLASS_TRANSPORT },
	[IBV_WC_LOC_RDD_VIOL_ERR] = { "LOC_RDD_VIOL_ERR", DP_CLASS_LOCAL },
	[IBV_WC_REM_INV_RD_REQ_ERR] = { "REM_INV_RD_REQ_ERR", DP_CLASS_REMOTE },
	[IBV_WC_REM_ABORT_ERR] = { "REM_ABORT_ERR", DP_CLASS_REMOTE },
	[IBV_WC_INV_EECN_ERR] = { "INV_EECN_ERR", DP_CLASS_LOCAL },
	[IBV_WC_INV_EEC_STATE_ERR] = { "INV_EEC_STATE_ERR", DP_CLASS_LOCAL },
	[IBV_WC_FATAL_ERR] = { "FATAL_ERR", DP_CLASS_LOCAL },
	[IBV_WC_RESP_TIMEOUT_ERR] = { "RESP_TIMEOUT_ERR", DP_CLASS_TRANSPORT },
	[IBV_WC_GENERAL_ERR] = { "GENERAL_ERR", DP_CLASS_LOCAL },
};

static const char *const QP_STATE[] = {
	[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
	[IBV_QPS_RTS] = "RTS",     [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
	[IBV_QPS_ERR] = "ERR",
};

uint32_t dp_wc_class(uint32_t wc_status)
{
	return wc_status < COUNT(STATUS) ? STATUS[wc_status].blame : DP_CLASS_LOCAL;
}

const char *dp_wc_name(uint32_t wc_status)
{
	return wc_status < COUNT(STATUS) ? STATUS[wc_status].name : "UNKNOWN";
}

const char *dp_qp_state_name(uint32_t qp_state)
{
	return qp_state < COUNT(QP_STATE) ? QP_STATE[qp_state] : "UNKNOWN";
}
