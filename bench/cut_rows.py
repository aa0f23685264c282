"""Cut rows: how long a producer waits when its master can neither receive nor send any more.

Three brokers on hosts of their own (network namespaces) are under a controller, as in rounds of
`make test-ha`. The master's links are cut at once both ways, and no host is told: packets are lost,
connections stay open. The master must find out that its lease is over, the controller that it may
elect another master, and the producer, which looks at the routes each second, that its master does
not answer. Needs root and iproute2.

    outcome = silent_cut(Bench(root=Path("/tmp/x"), rounds=5))
"""

import time

from failover_rows import ROUTES_MS, Flow
from rounds import Outcome
from rows import Bench

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.demo.traffic import TOPIC, Traffic
from tests.ha.network import missing
from tests.ha.trios import LEASE_MS, CutTrio

BEYOND_S = 3.0  # how much longer than the lease it may take


def silent_cut(bench: Bench) -> Outcome:
    goal_s = LEASE_MS / 1000 + BEYOND_S
    title = "silent cut of the master: until the next ack"
    outcome = Outcome("silent_cut", title, goal_s, unit=" s")
    if reason := missing():
        raise RuntimeError(reason)
    folder = bench.root / "cut"
    folder.mkdir()
    with CutTrio(folder) as cluster:
        assert cluster.network is not None
        with cluster.inside():
            with Cluster(cluster.namesrv) as view:
                admin.create_topic(view, TOPIC, 4)
            traffic = Traffic(cluster.namesrv, ROUTES_MS)
            traffic.start()
        flow = Flow(traffic)
        try:
            for _ in range(bench.rounds):
                cluster.settle()
                flow.flows()
                with cluster.inside():
                    master = cluster.nodes["master"].name
                others = [name for name in cluster.network.hosts if name != master]
                cut_s = time.monotonic()
                cluster.network.cut([[master], others])
                flow.flows()
                outcome.values.append(flow.longest_s(cut_s))
                cluster.network.heal()
            cluster.settle()
            flow.end()
        finally:
            traffic.close()
    shown = " ".join(f"{each:.2f}" for each in sorted(outcome.values))
    outcome.notes.append(f"lease {LEASE_MS / 1000:g} s; {len(outcome.values)} cuts: {shown}")
    outcome.notes.append(f"{traffic.sent} sent, none lost, {traffic.twice} came twice")
    return outcome
