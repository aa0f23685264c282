"""`rmq trace` against a broker: traces that clients wrote are found, joined and shown in order."""

import json
from pathlib import Path

from click.testing import CliRunner, Result
from support.broker_process import BrokerProcess, broker_process
from support.shard import Client, send

from rmq.cli.main import cli

TOPIC = "RMQ_SYS_TRACE_TOPIC"
ID = "7F0000010001AAAA0000000000000001"
OTHER = "7F0000010001AAAA0000000000000002"


def row(*fields: object) -> bytes:
    return "\x01".join(map(str, fields)).encode() + b"\x02"


def write(client: Client, body: bytes, *keys: str) -> None:
    reply = client.ask(send(TOPIC, body, i=f"KEYS\x01{' '.join(keys)}\x02"))
    assert reply.code == 0, reply.remark


def ask(broker: BrokerProcess, *words: str) -> Result:
    return CliRunner().invoke(cli, ["trace", *words, "-n", broker.namesrv])


def test_what_became_of_a_message_is_shown_in_order(tmp_path: Path) -> None:
    sent = ("r", "PG", "orders", ID, "tag", "order-7", "10.0.0.1:10911", 12, 3, 0, "OFF", "true")
    other = ("r", "PG", "orders", OTHER, "null", "", "10.0.0.1:10911", 12, 3, 0, "OFF", "false")
    with broker_process(tmp_path) as broker:
        nothing = ask(broker, ID)  # the topic is made by the first client that traces
        assert (nothing.exit_code, "topic create" in nothing.output) == (1, False)
        assert "no trace of" in nothing.output and "enable_trace" in nothing.output
        assert json.loads(ask(broker, ID, "--json").stdout) == []
        client = Client(int(broker.address.rpartition(":")[2]))
        # Consumers' tracers may be quicker than the producer's; messages share trace messages.
        write(
            client,
            row("SubBefore", 2000, "r", "CG", "R1", ID, 0, "order-7")
            + row("SubBefore", 2001, "r", "CG", "R2", OTHER, 0, ""),
            ID, OTHER, "order-7",
        )  # fmt: skip
        write(
            client, row("SubAfter", "R1", ID, 12, "false", "order-7", 4, 2012, "CG"), ID, "order-7"
        )
        for _ in range(2):  # a client may send a trace twice
            write(client, row("Pub", 1000, *sent) + row("Pub", 1001, *other), ID, OTHER, "order-7")
        write(client, row("SubBefore", 9000, "r", "CG", "R3", ID, 1, "order-7"), ID, "order-7")
        found = json.loads(ask(broker, ID, "--json").output)
        assert [each["kind"] for each in found] == ["Pub", "SubAfter", "SubBefore"]
        pub, failed, begun = found
        assert (pub["group"], pub["topic"], pub["tags"]) == ("PG", "orders", "tag")
        assert (pub["offset_id"], pub["success"], pub["client_host"]) == ("OFF", True, "127.0.0.1")
        assert (failed["time_ms"], failed["group"], failed["cost_ms"]) == (2000, "CG", 12)
        assert (failed["success"], failed["code"]) == (False, "failed")
        assert (begun["retries"], begun["time_ms"]) == (1, 9000)
        assert json.loads(ask(broker, "order-7", "--json").output) == found
        text = ask(broker, ID).output.splitlines()
        assert text[0].split()[:5] == ["WHAT", "TIME", "GROUP", "TOPIC", "RESULT"]
        assert [line.split()[0] for line in text[1:]] == ["sent", "consumed", "consuming"]
        assert "failed" in text[2] and "retry 1" in text[3] and "keys order-7" in text[1]
        (lone,) = (each for each in json.loads(ask(broker, OTHER, "--json").output)
                   if each["kind"] == "Pub")  # fmt: skip
        assert (lone["message_id"], lone["success"]) == (OTHER, False)
        unknown = ask(broker, "7F0000010001AAAA00000000000000FF")
        assert (unknown.exit_code, "no trace of" in unknown.output) == (1, True)
