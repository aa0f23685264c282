#!/usr/bin/env bash
# Sees to what the system must have before something can be built or tested.
#
#   tools/need.sh gcc headers        a C compiler and the headers of $PYTHON (default python3)
#   tools/need.sh libssl             OpenSSL's headers, which signatures are compiled with
#   tools/need.sh python venv        Python 3.10-3.14 that can make virtual environments
#   tools/need.sh jdk maven go       what the compatibility tests run the official clients with:
#                                    a JDK of 11 or later, Maven, Go 1.19 or later
#   tools/need.sh node               Node and npm, for the client of theirs
#   tools/need.sh java17             what Spark runs on: Java 17 or later, perhaps in JAVA_HOME
#   tools/need.sh openssl redis      a maker of keys; the server that @deduplicate can keep its keys in
#   tools/need.sh mkfs               mkfs.ext4, for file systems that tests fill and cut off
#   tools/need.sh aarch64            a compiler of the other processor, and what runs its programs
#   tools/need.sh valgrind           callgrind, which counts instructions
#   tools/need.sh iproute            ip, which makes hosts of a network that tests cut
#   tools/need.sh systemd            systemd-analyze, which judges the units that rmq makes
#   tools/need.sh chromium           a browser and its driver, which look at the web console
#
# Missing packages are installed with apt when we are root and apt is there; otherwise they are named
# together with the command that installs them, and the exit code is 1. Nothing missing: no output.
set -u
python=${PYTHON:-python3}
missing=()

has_headers() {
    "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))'
}

has_libssl() {
    echo '#include <openssl/sha.h>' | "${CC:-cc}" -E -x c - >/dev/null 2>&1
}

# "javac 17.0.15", "javac 1.8.0_402": the first number is what counts, and 1 is too old.
has_jdk() {
    command -v java >/dev/null && [[ $(javac -version 2>&1) =~ ^javac\ ([0-9]+) ]] \
        && [ "${BASH_REMATCH[1]}" -ge 11 ]
}

# 'openjdk version "17.0.15" 2025-04-15'; a JDK elsewhere under /usr/lib/jvm counts too, as in
# rmq/spark/jdk.py.
has_java17() {
    local java
    for java in "${JAVA_HOME:-/none}/bin/java" "$(command -v java)" /usr/lib/jvm/*/bin/java; do
        [ -x "$java" ] && [[ $("$java" -version 2>&1) =~ version\ \"([0-9]+) ]] \
            && [ "${BASH_REMATCH[1]}" -ge 17 ] && return
    done
    return 1
}

# "go version go1.19.8 linux/amd64"
has_go() {
    [[ $(go version 2>&1) =~ \ go([0-9]+)\.([0-9]+) ]] \
        && [ $((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2])) -ge 1019 ]
}

# The headers of the other processor's C library come with a package of their own.
has_aarch64() {
    [ "$(uname -m)" = aarch64 ] || { command -v aarch64-linux-gnu-gcc >/dev/null \
        && [ -e /usr/aarch64-linux-gnu/include/stdio.h ]; }
}

has_emulator() {
    [ "$(uname -m)" = aarch64 ] || command -v qemu-aarch64-static qemu-aarch64 >/dev/null
}

for need in "$@"; do
    case $need in
        make) command -v make >/dev/null || missing+=(make) ;;
        python) command -v "$python" >/dev/null || missing+=(python3) ;;
        venv) "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv) ;;
        gcc) command -v gcc >/dev/null && [ -e /usr/include/stdio.h ] || missing+=(gcc libc6-dev) ;;
        headers) has_headers 2>/dev/null || missing+=(python3-dev) ;;
        libssl) has_libssl || missing+=(libssl-dev) ;;
        jdk) has_jdk || missing+=(default-jdk-headless) ;;
        java17) has_java17 || missing+=(openjdk-17-jre-headless) ;;
        maven) command -v mvn >/dev/null || missing+=(maven) ;;
        openssl) command -v openssl >/dev/null || missing+=(openssl) ;;
        mkfs) PATH=$PATH:/sbin:/usr/sbin command -v mkfs.ext4 >/dev/null || missing+=(e2fsprogs) ;;
        redis) command -v redis-server valkey-server >/dev/null || missing+=(redis-server) ;;
        etcd) command -v etcd >/dev/null || missing+=(etcd-server) ;;
        aarch64)
            has_aarch64 || missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
            has_emulator || missing+=(qemu-user-static) ;;
        iproute) PATH=$PATH:/sbin:/usr/sbin command -v ip >/dev/null || missing+=(iproute2) ;;
        chromium)
            { command -v chromium && command -v chromedriver; } >/dev/null \
                || missing+=(chromium chromium-driver) ;;
        systemd) command -v systemd-analyze >/dev/null || missing+=(systemd) ;;
        valgrind) command -v valgrind >/dev/null || missing+=(valgrind libc6-dbg) ;;
        go) has_go || missing+=(golang-go) ;;
        node)
            command -v node >/dev/null || missing+=(nodejs)
            command -v npm >/dev/null || missing+=(npm) ;;
        *) echo "tools/need.sh: no rule for $need" >&2; exit 2 ;;
    esac
done

if [ ${#missing[@]} -gt 0 ]; then
    install="apt-get install -y --no-install-recommends ${missing[*]}"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing ${missing[*]}"
        export DEBIAN_FRONTEND=noninteractive
        { $install || { apt-get update && $install; }; } >/dev/null || exit 1
    else
        echo "missing: ${missing[*]}. Install with: sudo $install" >&2
        exit 1
    fi
fi
case " $* " in *" python "*)
    "$python" -c 'import sys
if not (3, 10) <= sys.version_info[:2] <= (3, 14):
    sys.exit("rmq needs Python 3.10 to 3.14, %s is %d.%d; say which: make PYTHON=python3.12"
             % (sys.executable, *sys.version_info[:2]))' ;;
esac
