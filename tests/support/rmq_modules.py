"""What a server of tests has read before it is forked: see rmq_process.py."""

# ruff: noqa: F401

import gc

import support.rmq_process  # which a fork begins with; pytest comes with it
import support.shard_forks

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

gc.collect()
gc.freeze()
