"""Any S3 service behind the gateway: RDMA on the client's side, HTTP upstream.

Nothing is kept here that another gateway would need, and nothing is made up: what the service
can't do is refused, and a compare-and-swap is never emulated.
"""
