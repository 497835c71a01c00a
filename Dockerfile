# The gateway in a slim image, as an unprivileged user.
#
#   docker build -t s3rdma .
#   docker run --network host --device /dev/infiniband --cap-add IPC_LOCK --ulimit memlock=-1 \
#     -v s3rdma-data:/data -e S3RDMA_ACCESS_KEY=... -e S3RDMA_SECRET_KEY=... s3rdma
#
# Why these flags: queue pairs carry the host's GIDs, so RoCE needs the host's network; the verbs
# devices are files; staging is pinned memory, which the default memlock limit forbids. Plain S3
# over HTTP needs none of them: `docker run -p 9000:9000 -v s3rdma-data:/data s3rdma`.

# Any Debian or Ubuntu base with Python 3.11 or later and its venv module will do.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev libdeflate-dev libibverbs-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE MANIFEST.in ./
COPY dataplane_c dataplane_c
COPY gateway gateway
RUN python3 -m venv /opt/s3rdma && /opt/s3rdma/bin/pip install --no-cache-dir .

FROM ${BASE}
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
HEALTHCHECK --interval=10s --timeout=7s --start-period=20s CMD ["s3rdma", "health"]
ENTRYPOINT ["s3rdma"]
CMD ["serve"]
