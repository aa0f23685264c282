"""rmq modules: what is imported before a server is forked for a test (rmq_process.py).

Beside the modules that a start imports, these are the modules that Python imports at the first
look-up of a name and for the first thread of a pool. OpenSSL also makes a key and a context here,
since the first ones are slow: that saves a tenth of what a forked server costs. The key is thrown
away; each server makes its own.
"""

# ruff: noqa: F401

import concurrent.futures.thread
import encodings.idna
import gc
import multiprocessing.popen_forkserver
import os

import support.rmq_process  # a fork begins in this module
import support.shard_forks

import cext.net.self_signed
import rmq.broker.broker
import rmq.broker.core_options
import rmq.broker.store.damage_report
import rmq.cli.addresses
import rmq.cli.replica_of
import rmq.cli.server
import rmq.collector
import rmq.namesrv.server
import rmq.node.controller_process
import rmq.node.process
import rmq.node.ready_line
import rmq.node.served_broker
import rmq.node.slave_start
import rmq.node.truncation
import rmq.serving.tls
import rmq.system.affinity
import rmq.system.topology
import shards.shard_process
import shards.supervisor_process


def _use_openssl() -> None:
    descriptor = os.memfd_create("certificate")
    with open(descriptor, "wb") as file:
        file.write(cext.net.self_signed.self_signed_pem())
        file.flush()
        path = f"/proc/self/fd/{descriptor}"
        files = rmq.serving.tls.TlsFiles(path, path, "", "", "none", True, True)
        rmq.broker.certificates.context_of(files)
        files.context()


_use_openssl()
gc.collect()
gc.freeze()
