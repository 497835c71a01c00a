# The gateway in a slim image, as an unprivileged user.
#
#   docker build -t s3rdma .
#   docker run --network host --device /dev/infiniband --cap-add IPC_LOCK --ulimit memlock=-1 \
#     -v s3rdma-data:/data -e S3RDMA_ACCESS_KEY=... -e S3RDMA_SECRET_KEY=... s3rdma
#
# Why these flags: queue pairs carry the host's GIDs, so RoCE needs the host's network; the verbs
# devices are files; staging is pinned memory, which the default memlock limit forbids. Plain S3
# over HTTP needs none of them: `docker run -p 9000:9000 -v s3rdma-data:/data s3rdma`.

FROM python:3.11-slim-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev libdeflate-dev libibverbs-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE MANIFEST.in ./
COPY dataplane_c dataplane_c
COPY gateway gateway
RUN python -m venv /opt/s3rdma && /opt/s3rdma/bin/pip install --no-cache-dir .

FROM python:3.11-slim-bookworm
# libibverbs is opened at run time; ibverbs-providers holds the drivers' user-space halves.
RUN apt-get update \
 && apt-get install -y --no-install-recommends libibverbs1 ibverbs-providers \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /data --create-home s3rdma
COPY --from=build /opt/s3rdma /opt/s3rdma
ENV PATH=/opt/s3rdma/bin:$PATH \
    S3RDMA_LISTEN=0.0.0.0:9000 \
    S3RDMA_STORE=/data
USER s3rdma
VOLUME /data
EXPOSE 9000
HEALTHCHECK --interval=10s --timeout=3s \
  CMD ["python", "-c", "import socket; socket.create_connection(('127.0.0.1', 9000), 2).close()"]
ENTRYPOINT ["s3rdma"]
CMD ["serve"]
