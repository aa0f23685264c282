"""Parameters: what a parameter is, and those that producers, consumers and Admin share.

class ProducerParameters(ClientParameters):
    send_msg_timeout: int = parameter(3000, "...")
"""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from rmq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmq.client.parameters.hooks import RpcHook

P = TypeVar("P", bound="ClientParameters")


def parameter(default: Any, text: str, java: str = "", *, is_secret: bool = False) -> Any:
    """A field with its meaning. `java`: its name in Java, if that is not ours in camel case. A
    secret is left out of repr() and of public_values."""
    metadata = {"text": text, "java": java, "is_secret": is_secret}
    return field(default=default, repr=not is_secret, metadata=metadata)


def public_values(parameters: ClientParameters) -> dict[str, Any]:
    """The values that others may see, by name: all but secrets."""
    return {
        each.name: getattr(parameters, each.name)
        for each in dataclasses.fields(parameters)
        if not each.metadata.get("is_secret")
    }


@dataclass(kw_only=True)
class ClientParameters:
    """What producers, consumers and Admin have in common."""

    namesrv_addr: str | None = parameter(
        None, "name servers, `host:port`, several separated by `;`. Unset: the environment's "
        "NAMESRV_ADDR, then `namesrv_file`, then `namesrv_http`, then 127.0.0.1:9876",
    )  # fmt: skip
    namesrv_file: str | None = parameter(
        None, "a file whose text is the list of name servers; read again every two minutes "
        "(not in Java)",
        "-",
    )  # fmt: skip
    namesrv_http: str | None = parameter(
        None, "URL of an address server, whose answer is the list of name servers; asked every "
        "two minutes. Java's is http://jmenv.tbsite.net:8080/rocketmq/nsaddr",
        "-",
    )  # fmt: skip
    client_ip: str | None = parameter(
        None, "address of this machine in the client id and in message ids; found out when unset",
        "clientIP",
    )  # fmt: skip
    instance_name: str = parameter(
        "DEFAULT", "clients of one process with equal name, name servers and unit share their "
        "connections; DEFAULT becomes the process id in the client id",
    )  # fmt: skip
    client_callback_executor_threads: int = parameter(
        2, "threads that run the callbacks of asynchronous requests"
    )
    poll_name_server_interval: int = parameter(30_000, "how often routes are read again")
    heartbeat_broker_interval: int = parameter(30_000, "how often brokers get a heartbeat")
    persist_consumer_offset_interval: int = parameter(
        5_000, "how often consumers tell brokers how far they are"
    )
    pull_time_delay_mills_when_exception: int = parameter(
        1_000, "pause before the pull after one that failed"
    )
    unit_mode: bool = parameter(False, "the unit flag of sends and heartbeats")
    unit_name: str | None = parameter(None, "part of the client id, to keep units apart")
    namespace: str | None = parameter(
        None, "put before topics and groups as `namespace%name`, and taken off what is received"
    )
    access_channel: str = parameter("LOCAL", "accepted without effect")
    language: str = parameter("PYTHON", "accepted; brokers see PYTHON")
    vip_channel_enabled: bool = parameter(
        False,
        "connect to the brokers' second port (listenPort - 2), which those of rmq have only with "
        "slaves or a controller",
    )
    use_tls: bool = parameter(False, "encrypt all connections", "useTLS")
    tls_ca_file: str | None = parameter(
        None,
        "certificates that are trusted; unset: the system's",
        "-",
    )
    tls_verify: bool = parameter(
        True,
        "check the peer's certificate and name (Java's default does not)",
        "-",
    )
    tls_cert_file: str | None = parameter(
        None, "the certificate that servers are shown which ask for one", "-"
    )
    tls_key_file: str | None = parameter(None, "its key; unset: in the same file", "-")
    tls_key_password: str | None = parameter(None, "what the key is locked by", "-", is_secret=True)
    mq_client_api_timeout: int = parameter(3_000, "patience with name servers and admin requests")
    decode_read_body: bool = parameter(True, "accepted; a body is read when it is asked for")
    decode_decompress_body: bool = parameter(
        True, "accepted; a packed body is unpacked when it is asked for"
    )
    socks_proxy_config: str = parameter("{}", "accepted; refused when not empty")
    detect_timeout: int = parameter(200, "patience when a slow broker is probed")
    detect_interval: int = parameter(2_000, "how often slow brokers are probed")
    start_detector_enable: bool = parameter(False, "probe brokers that were slow or failed")
    send_latency_enable: bool = parameter(
        False, "avoid brokers for a while after slow or failed sends (latency fault tolerance)"
    )
    enable_stream_request_type: bool = parameter(False, "accepted without effect")
    enable_heartbeat_channel_event_listener: bool = parameter(
        True, "a lost connection is followed by a heartbeat at once"
    )
    enable_concurrent_heartbeat: bool = parameter(
        False, "accepted; heartbeats to all brokers are always under way together"
    )
    concurrent_heartbeat_thread_pool_size: int = parameter(2, "accepted without effect")
    enable_trace: bool = parameter(False, "send a trace of each message to the trace topic")
    trace_topic: str | None = parameter(None, "its name; unset: RMQ_SYS_TRACE_TOPIC")
    trace_msg_batch_num: int = parameter(10, "traces that are sent together")
    max_page_size_in_get_metadata: int = parameter(2_000, "accepted without effect")
    access_key: str | None = parameter(
        None, "the account whose requests these are, with `secret_key`; Java gives both to "
        "AclClientRPCHook",
    )  # fmt: skip
    secret_key: str | None = parameter(
        None, "its password, which signs every request", is_secret=True
    )
    security_token: str | None = parameter(
        None, "sent along; brokers do not look at it", is_secret=True
    )
    rpc_hook: RpcHook | None = parameter(
        None, "sees every request before it is sent and every answer"
    )

    @property
    def hook(self) -> RpcHook | None:
        """The hook that sees the requests: rpc_hook, or the one that signs for the account."""
        if self.access_key is None or self.secret_key is None:
            return self.rpc_hook
        from rmq.client.parameters.hooks import AclClientRpcHook

        return AclClientRpcHook(self.access_key, self.secret_key, self.security_token)

    def changed(self: P, changes: Mapping[str, Any]) -> P:
        """A copy with these changes. ConfigError: a name is unknown, or a value is not valid."""
        known = {each.name: each for each in dataclasses.fields(self)}
        for name in changes:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigError(f"no parameter {name} of {type(self).__name__}{hint}")
        copy = dataclasses.replace(self, **changes)
        copy.check()
        return copy

    def check(self) -> None:
        """ConfigError: a value has another type than its default, or is negative. A single text is
        refused where several are wanted, because its letters would be taken for them."""
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            wanted = type(each.default)
            if each.default is None or each.default is dataclasses.MISSING or wanted is object:
                continue
            if wanted is int and (not isinstance(value, int) or isinstance(value, bool)):
                raise ConfigError(f"{each.name}={value!r}: a whole number is wanted")
            if wanted is int and value < min(each.default, 0):
                raise ConfigError(f"{each.name}={value}: at least {min(each.default, 0)}")
            if wanted in (bool, str) and not isinstance(value, wanted):
                raise ConfigError(f"{each.name}={value!r}: a {wanted.__name__} is wanted")
            if wanted is tuple and isinstance(value, (str, bytes)):
                raise ConfigError(f"{each.name}={value!r}: a tuple is wanted, ({value!r},)")
        if (self.access_key is None) != (self.secret_key is None):
            raise ConfigError("access_key and secret_key: give both or none")
        if self.access_key is not None and self.rpc_hook is not None:
            raise ConfigError("access_key and rpc_hook: give one of them; a hook signs by itself")
        if self.socks_proxy_config not in ("", "{}"):
            raise ConfigError("socks_proxy_config: proxies are not supported")


def check_choice(name: str, value: str, known: Sequence[str]) -> None:
    """ConfigError, with the value that may have been meant, unless the value is known."""
    if value in known:
        return
    words = value.upper()
    near = [each for each in known if words and words in each] if len(words) > 2 else []
    near = near or difflib.get_close_matches(words, known, 1)
    hint = f"; did you mean {near[0]}?" if len(near) == 1 else ""
    raise ConfigError(f"{name}={value!r}: one of {', '.join(known)}{hint}")


def java_name(name: str) -> str:
    """A name in snake_case as camelCase."""
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))
