#!/bin/sh
# A container with mtrun beside one that runs, for docker or podman. Not tried with either.
# It shares the other one's processes, and needs the right to trace them; its port is this machine's.
set -eu
docker run --rm --pid "container:$1" --cap-add SYS_PTRACE --cap-add SYS_ADMIN -v "$2:/etc/mtrun-token:ro" -p 127.0.0.1:9127:9127 mtrun \
	mtrun -q -s 512K -p 1 --listen 0.0.0.0:9127 --listen-token /etc/mtrun-token
