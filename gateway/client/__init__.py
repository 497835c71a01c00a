"""For programs: objects into and out of any buffer, by RDMA where the server can."""
