"""Clients: what each kind of client needs to reach servers with files of `rmq setup security`.

The account is the first Super user's. An application gets its own account by `rmq user create`.
"""

from __future__ import annotations

from rmq.setup.security import Security

RMQ = """\
export NAMESRV_ADDR={address} RMQ_TLS=1 RMQ_TLS_CA={authority}
export RMQ_CREDENTIALS={folder}/admin.json
rmq user create alice --generate
rmq acl allow alice 'Topic:orders*' --actions Pub,Sub
"""
PYTHON = """\
from rmq import Message, Producer

account = {{"access_key": "alice", "secret_key": "..", "use_tls": True,
           "tls_ca_file": "{authority}"}}
with Producer("billing", namesrv_addr="{address}", **account) as producer:
    producer.send(Message("orders", b"hello"))
"""
JAVA = """\
DefaultMQProducer producer = new DefaultMQProducer("billing",
    new AclClientRPCHook(new SessionCredentials("alice", "..")));
producer.setNamesrvAddr("{address}");
producer.setUseTLS(true);
// java -Dtls.test.mode.enable=false -Dtls.client.authServer=true
//      -Dtls.client.trustCertPath={authority}
"""
GO = """\
// v2.1.2, the last release, has no TLS: tls.server.mode=permissive, and no WithTls. Its master has:
// go get github.com/apache/rocketmq-client-go/v2@v2.1.3-0.20251226070945-2173d070fd1b
rocketmq.NewProducer(producer.WithNameServer([]string{{"{address}"}}),
    producer.WithCredentials(primitive.Credentials{{AccessKey: "alice", SecretKey: ".."}}),
    producer.WithTls(true)) // of the whole process; whatever certificate a server shows is believed
"""
SPARK = """\
# rmq acl allow alice 'Topic:orders*' Group:TOOLS_CONSUMER 'Cluster:*' --actions Pub,Sub,Get
stream = (
    spark.readStream.format("rmq").option("nameserver", "{address}").option("topic", "orders")
    .option("accessKey", "alice").option("secretKey", "..")
    .option("tls", "true").option("tlsCaFile", "{authority}").load()
)
"""
MQADMIN = """\
# conf/tools.yml
accessKey: {admin}
secretKey: the password in {folder}/admin.json
# in the shell
export JAVA_OPT="-Dtls.enable=true -Dtls.test.mode.enable=false -Dtls.client.authServer=true \
-Dtls.client.trustCertPath={authority}"
mqadmin clusterList -n {address}
"""
KINDS = {"rmq": RMQ, "Python": PYTHON, "Java": JAVA, "Go": GO, "Spark": SPARK, "mqadmin": MQADMIN}


def snippets(security: Security, address: str) -> dict[str, str]:
    """kind of client -> text. address: the name server's."""
    is_ours = "authority.pem" in security.files
    given = {
        "address": address,
        "admin": security.admin,
        "authority": str(security.folder / "authority.pem") if is_ours else "authority.pem",
        "folder": str(security.folder),
    }
    return {kind: text.format(**given) for kind, text in KINDS.items()}
