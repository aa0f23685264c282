"""Notices: tell a broker's processes which of them leads now (NOTIFY_MIN_BROKER_ID_CHANGE, 905).

They are off unless notifyMinBrokerIdChanged=true. Slaves that may act as master must be told at
once when a process with the smallest id comes or goes, not at their next registration. The notice
is a one-way request on a connection of its own; a broker that does not listen misses it, and learns
the same by asking for its group (901).

Example: master h1:10911 (id 0) leaves, slave h2:10911 (id 1) stays: h2:10911 is sent
{minBrokerId: 1, minBrokerAddr: "h2:10911", offlineBrokerAddr: "h1:10911"}.
"""

from rmq.codes import FLAG_ONE_WAY, RequestCode
from rmq.config import Settings
from rmq.format.remoting import Command, encode, field_texts
from rmq.namesrv.route_tables import SmallestIdChange
from rmq.serving.identity import signed
from rmq.serving.one_way import OneWay


class Notices:
    """Owned by the event loop of the name server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._one_way = OneWay("of its new leader")
        self._opaque = 0

    def send(self, change: SmallestIdChange) -> None:
        """Sends the change to all peers in the background."""
        if not self._settings.notifyMinBrokerIdChanged:
            return
        self._opaque += 1
        fields = {
            "minBrokerId": change.smallest_id,
            "minBrokerAddr": change.smallest_address,
            "offlineBrokerAddr": change.offline_address,
            "haBrokerAddr": change.ha_address,
        }
        command = Command(
            code=RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
            flag=FLAG_ONE_WAY,
            opaque=self._opaque,
            fields=field_texts(fields),
        )
        notice = encode(signed(command))
        for address in change.peers:
            self._one_way.send(address, notice)

    def stop(self) -> None:
        self._one_way.stop()
