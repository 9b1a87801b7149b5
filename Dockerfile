# Esper in a container, from this tree:
#   docker build -t esper .                       the program, on the CPU
#   docker build -t esper:cuda --target cuda .    with the device library; run it with --gpus all
#   docker run --rm -v "$PWD:/work" esper train --task quickstart --name first
# Both install the packages that `make deb` makes. Runs and data are kept in the folder that is mounted at /work.

FROM nvidia/cuda:12.8.1-devel-ubuntu24.04 AS build-cuda
WORKDIR /src
COPY . .
RUN apt-get update && apt-get install -y --no-install-recommends make gcc git dpkg-dev binutils && scripts/deps
RUN make -j"$(nproc)" all build/libesper_cuda.so && make deb

FROM nvidia/cuda:12.8.1-base-ubuntu24.04 AS cuda
COPY --from=build-cuda /src/build/deb /deb
RUN apt-get update && apt-get install -y --no-install-recommends /deb/esper_*.deb /deb/esper-cuda_*.deb \
    && rm -rf /deb /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["esper"]

FROM debian:12 AS build
WORKDIR /src
COPY . .
RUN apt-get update && apt-get install -y --no-install-recommends make gcc git dpkg-dev binutils && scripts/deps
RUN make -j"$(nproc)" all && make deb

FROM debian:12-slim AS cpu
COPY --from=build /src/build/deb /deb
RUN apt-get update && apt-get install -y --no-install-recommends /deb/esper_*.deb \
    && rm -rf /deb /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["esper"]
