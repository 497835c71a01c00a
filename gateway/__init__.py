"""The S3-over-RDMA gateway: plain S3 for every client, RDMA for those that can."""

__version__ = "0.1.0"
