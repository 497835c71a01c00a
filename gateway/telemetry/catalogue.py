"""Every metric of the gateway, once: name, type, help and labels. Dashboards and alerts rely on it.

Names follow Prometheus' habits (https://prometheus.io/docs/practices/naming/): base units, the unit
in the name, ``_total`` on counters. Label values are of small fixed sets; none comes from a client.
"""

from __future__ import annotations

from gateway.telemetry.measures import PREFIX, Family, Kind

_families: list[Family] = []


def _counter(name: str, text: str, *labels: str) -> Family:
    return _family(f"{name}_total", Kind.COUNTER, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return _family(name, Kind.GAUGE, text, labels)


def _histogram(name: str, text: str, *labels: str) -> Family:
    return _family(name, Kind.HISTOGRAM, text, labels)


def _family(name: str, kind: Kind, text: str, labels: tuple[str, ...]) -> Family:
    family = Family(PREFIX + name, kind, text, labels)
    _families.append(family)
    return family


BUILD_INFO = _gauge("build_info", "1, with what runs.", "version")
LOG_LINES = _counter("log_lines", "Log lines of level warning and above.", "level")
RELOADS = _counter("reloads", "Times that settings were read again (SIGHUP).", "outcome")
CERTIFICATE_EXPIRY = _gauge(
    "certificate_expiry_timestamp_seconds", "When the TLS certificate expires, POSIX time."
)

REQUESTS = _counter("requests", "Requests answered.", "operation", "status")
REQUEST_SECONDS = _histogram(
    "request_duration_seconds", "From a request's head to the end of its reply.", "operation"
)
FIRST_BYTE_SECONDS = _histogram(
    "request_first_byte_seconds",
    "From a request's head to the first byte of its reply.",
    "operation",
)
RUNNING = _gauge("requests_running", "Requests that are being answered.")
HTTP_CONNECTIONS = _gauge("http_connections", "HTTP connections that are open.")
HANDOVERS = _counter(
    "handovers",
    "Connections that went to the worker that holds their request's session.",
    "direction",
)
MOVED_BYTES = _counter(
    "moved_bytes",
    "Bytes of bodies and objects, by what moved them: http, rdma (a session), rc (a connection).",
    "path",
    "direction",
)
SETTLING = _gauge("bodies_settling", "Batches of bodies that are hashed and written now.")
DIGEST_JOBS = _gauge("digest_jobs", "Pieces of bodies that hashing threads have or will get.")
READ_AHEADS = _gauge("read_aheads", "HTTP replies that read ahead.")
LIMIT_HITS = _counter("limit_hits", "Requests refused with 503 by a limit, by its name.", "limit")

FABRIC_UP = _gauge("fabric_up", "1 while the RDMA port is usable, 0 while not, none without one.")
FABRIC_INFO = _gauge(
    "fabric_info", "1, with the RDMA port that was opened.", "kind", "device", "port", "gid", "mtu"
)
SESSIONS = _gauge("sessions", "Sessions (hipobj-rc-v2) by state.", "state")
RC_CONNECTIONS = _gauge("rc_connections", "Connections (rc: tokens) that are open.")
TRANSFERS = _counter("transfers", "Transfers of objects by RDMA.", "path", "outcome")

QUEUE_PAIRS = _gauge(
    "queue_pairs",
    "Queue pairs by use (lane: staging of a session; connection) and state: free, leased, resting.",
    "use",
    "state",
)
SLOTS = _gauge("staging_slots", "Slots of the connections' staging, by state.", "state")
SLOT_BYTES = _gauge("staging_slot_bytes", "Length of a slot.")
SLOT_WAITERS = _gauge("staging_waiters", "Moves of connections that wait for slots.")
QUEUE_PAIRS_MADE = _counter("queue_pairs_made", "Queue pairs made, in place of others too.")
REGIONS_REGISTERED = _counter("regions_registered", "Pieces of memory registered.")
CORE_ALLOCATIONS = _counter("core_allocations", "Allocations by the C core.")
COMPLETIONS = _counter("completions", "Work requests that ended, by wc.status.", "status")
QUEUE_POLLS = _counter("queue_polls", "Polls of the completion queue.")
WAKEUPS = _counter("progress_wakeups", "Times that the progress thread was woken from sleep.")
CORE_EVENTS = _counter("core_events", "Events from the C core to the event loop.")
OPERATIONS = _counter(
    "work_requests",
    "WRITEs and READs of ours that are done, and peers' WRITEs with immediate (receive).",
    "kind",
)
OPERATION_BYTES = _counter("work_request_bytes", "Bytes that those moved.", "kind")
PACKETS_RECEIVED = _counter("packets_received", "UDP payloads, soft fabric only.")
PACKETS_DROPPED = _counter("packets_dropped", "Those of them that were dropped.", "reason")
DATAGRAMS_UNSENT = _counter("datagrams_unsent", "Datagrams that the kernel refused.")
RETRANSMISSIONS = _counter(
    "retransmissions", "Times that a queue pair went back to what it had sent, soft fabric."
)
ACK_TIMEOUTS = _counter("ack_timeouts", "Those of them that the transport timer caused.")

COMMIT_SECONDS = _histogram("commit_duration_seconds", "A transaction of the store's catalog.")
COMMIT_CHANGES = _histogram("commit_changes", "Changes that shared a transaction.")
PENDING_CHANGES = _gauge("pending_changes", "Changes of the catalog that wait for the disk.")

READY = _gauge("ready", "1 where the last try went well, by what was tried.", "check")

FAMILIES: tuple[Family, ...] = tuple(_families)
"""All of them, in the order of this page."""
