"""What `rmq setup security` prints for Spark reads a topic; without the account it reads
nothing."""

from pathlib import Path

import pytest
from pyspark.errors import PythonException, StreamingQueryException
from support.secured_broker import secured_broker

from rmq import Message, Producer

ROWS = 20


def read(spark, printed: str, name: str) -> list[bytes]:
    found: dict[str, object] = {"spark": spark}
    exec(printed.replace(".load()", '.option("startingOffsets", "earliest").load()'), found)
    rows = found["stream"].writeStream.format("memory").queryName(name)
    query = rows.trigger(availableNow=True).start()
    query.awaitTermination()
    return sorted(bytes(row.body) for row in spark.table(name).collect())


def test_the_printed_lines_read_a_topic(spark, tmp_path: Path) -> None:
    with secured_broker(tmp_path) as secured:
        account = {
            "access_key": "alice", "secret_key": secured.password,
            "use_tls": True, "tls_ca_file": str(secured.authority),
        }  # fmt: skip
        bodies = [b"%d" % number for number in range(ROWS)]
        with Producer("p", namesrv_addr=secured.broker.namesrv, **account) as producer:
            for body in bodies:
                producer.send(Message("orders", body))
        printed = secured.printed["Spark"]
        first = printed.splitlines()[0]
        assert first.startswith("# rmq acl allow alice ")
        secured.run(first.removeprefix("# "))
        assert read(spark, printed, "secured") == sorted(bodies)
        wrong = printed.replace(secured.password, "wrong")
        with pytest.raises(StreamingQueryException, match="signature"):
            read(spark, wrong, "refused")


def test_who_writes_needs_pub_on_the_topic_and_get_on_the_cluster(spark, tmp_path: Path) -> None:
    """The Spark guide says so."""
    with secured_broker(tmp_path) as secured:
        said = secured.run("rmq user create bob --generate")
        given = {
            "nameserver": secured.broker.namesrv, "topic": "orders", "accessKey": "bob",
            "secretKey": said.partition("password: ")[2].splitlines()[0],
            "tls": "true", "tlsCaFile": str(secured.authority),
        }  # fmt: skip
        frame = spark.createDataFrame([(b"a",), (b"b",)], "body binary")
        rows = frame.write.format("rmq").mode("append").options(**given)
        with pytest.raises(PythonException, match="no permission"):
            rows.save()
        secured.run("rmq acl allow bob 'Topic:orders*' --actions Pub")
        secured.run("rmq acl allow bob 'Cluster:*' --actions Get")
        rows.save()
