#!/usr/bin/env bash
# The tests that need a real SocketCAN: here where there is a vcan0 (or one can be made), else in an
# emulated kernel, if the script that starts one is at hand (RUN_IN_GUEST, or beside the project).
set -euo pipefail
cd "$(dirname "$0")/.."
guest=${RUN_IN_GUEST:-../shared/tools/run-in-guest.sh}
tests=(tests/can/test_socketcan.py tests/scenarios/test_socketcan.py)
if [ ! -e /sys/class/net/vcan0 ]; then
  modprobe vcan 2>/dev/null && ip link add dev vcan0 type vcan 2>/dev/null &&
    ip link set vcan0 up || true
fi
if [ -e /sys/class/net/vcan0 ]; then
  exec .venv/bin/python -m pytest -q "${tests[@]}"
fi
if [ ! -x "$guest" ]; then
  echo "test_socketcan: skipped: no vcan0 here, and no emulated kernel (RUN_IN_GUEST)"
  exit 0
fi
# Only what the tests need: there, Python runs some twenty times slower. Compiling the kernels would
# take longer than a session needs, so they stay Python.
export CAN_GUEST_CACHE=${CAN_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/can-guest}
mkdir -p "$CAN_GUEST_CACHE"
exec "$guest" --timeout "${TIMEOUT:-1800}" --env NUMBA_DISABLE_JIT=1 \
  .venv/bin/python -m pytest -q --noconftest \
  -p no:cacheprovider -p no:hypothesispytest -p no:asyncio -p no:anyio -c /dev/null --rootdir . --import-mode=importlib \
  "${tests[@]}"
