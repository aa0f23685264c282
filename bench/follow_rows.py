"""Follow row: how long a message takes from end to end, beside a bare loopback ping-pong.

A producer sends on a schedule, and a consumer follows it (bench/follow_load.py). Latency is from
when a message was due until the consumer has it: the time of the send, of the wake-up of the
waiting pull, and of the pull's answer.

    outcome = FOLLOW_ROWS["follow"](bench)
"""

from peer_rows import SHAPES, TAIL_PACE, started
from rocketmq_peers import Rmq
from rounds import Outcome, interleaved, middle
from rows import REPLY_BYTES, REQUEST_BYTES, Bench, Row

from rmq.cli.bench import measure_pingpong
from rmq.load.latency import percentile_ns


def follow(bench: Bench) -> Outcome:
    title = f"end to end p99 at {TAIL_PACE:,.0f} msg/s: to ping-pong p50"
    outcome = Outcome("follow", title, 8.0)
    server_cpu = bench.cpus[0] if bench.cpus else None
    peer = Rmq(bench, False)
    with started(peer):
        load = peer.load(SHAPES["tail-256"])
        load.turn(bench.seconds, TAIL_PACE)  # warms up, and does not count

        def echo() -> dict[str, float]:
            found = measure_pingpong(REQUEST_BYTES, REPLY_BYTES, bench.seconds, server_cpu)
            return {"p50": percentile_ns(found.latency, 50.0) / 1e3}

        def turn() -> dict[str, float]:
            made = load.turn(bench.seconds, TAIL_PACE)
            if made.failures or not made.latency_us:
                raise RuntimeError(f"{made.messages:,} came, failures {made.failures}")
            return made.latency_us

        pairs = interleaved(bench.rounds, echo, turn)
    bare = [each["p50"] for each, _ in pairs]
    ours = {name: [each[name] for _, each in pairs] for name in ("p50", "p99")}
    outcome.values = [b / a for a, b in zip(bare, ours["p99"], strict=True)]
    outcome.notes.append(
        f"p50 {middle(ours['p50']):.0f} us, p99 {middle(ours['p99']):.0f} us; "
        f"ping-pong {middle(bare):.0f} us"
    )
    outcome.details = {**ours, "pingpong_us": bare}
    return outcome


FOLLOW_ROWS: dict[str, Row] = {"follow": follow}
