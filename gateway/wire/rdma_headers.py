"""The x-amz-rdma-* headers of hipobj-rc-v2 as values, and back."""
