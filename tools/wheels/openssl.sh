#!/usr/bin/env bash
# OpenSSL for wheels: the images that they are built in have one that is too old, or one for newer
# processors and other distributions alone. auditwheel puts this one into the wheel.
#
#   tools/wheels/openssl.sh /opt/openssl        fetched, checked, compiled, installed there
#
# OPENSSL_TARBALL=FILE takes that file instead of fetching it. When OpenSSL mends something: change
# both lines, and make a release. It reads no openssl.cnf, which is written for the machine's own.
set -eu
version=3.5.9
sha256=603f5602e2eef00d77fbd429d34dcd5822bb301757a1bc9cdb24c670f1eb859a

target=${1:?where to}
if [ -e "$target/include/openssl/ssl.h" ]; then
    exit 0
fi
if command -v dnf >/dev/null; then
    dnf install -y perl-core >/dev/null # its configuration is a program of Perl
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tarball=${OPENSSL_TARBALL:-$folder/openssl.tar.gz}
if [ -z "${OPENSSL_TARBALL:-}" ]; then
    curl -fsSL --retry 3 -o "$tarball" \
        "https://github.com/openssl/openssl/releases/download/openssl-$version/openssl-$version.tar.gz"
fi
echo "${OPENSSL_SHA256:-$sha256}  $tarball" | sha256sum --check --quiet
tar -xzf "$tarball" -C "$folder" --strip-components 1
cd "$folder"
./config --prefix="$target" --libdir=lib --openssldir=/etc/ssl shared no-apps no-docs no-tests \
    no-module no-legacy no-autoload-config >/dev/null
make -j"${RMQ_JOBS:-$(nproc)}" build_libs >/dev/null
make install_dev >/dev/null
