"""What the RDMA protocols mean, above the data plane."""
