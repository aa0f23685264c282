#!/usr/bin/env bash
# Says of which Python `make` makes its environment:
#
#   tools/python.sh        python3, or /usr/bin/python3
#
# The one on PATH, unless it was compiled without Python's own optimisations, as pyenv compiles it by
# default, and the system's is one that rmq runs on and can be compiled for. A distribution's is
# built by profile: all tests together take a sixth less of the processor with it. Another one by
# name: make PYTHON=python3.12
set -u
system=${1:-/usr/bin/python3}

# Nothing is known of one that is not there: tools/need.sh sees to it.
is_slow() {
    python3 -c 'import sys, sysconfig
asked_for = sysconfig.get_config_var("CONFIG_ARGS") or ""
sys.exit(sys.base_prefix == "/usr" or "--enable-optimizations" in asked_for)' 2>/dev/null
}

serves() {
    "$system" -c 'import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
sys.exit(not ((3, 10) <= sys.version_info[:2] <= (3, 14) and os.path.exists(header)))' 2>/dev/null
}

if is_slow && serves; then echo "$system"; else echo python3; fi
