"""``s3rdma bench``: measuring, and showing what was measured."""
