"""Showing and changing settings over the wire: the allow-list holds."""

from pathlib import Path

from support.fake_core import control
from support.name_server import in_loop

from rmq import properties


@in_loop
async def test_all_settings_are_shown_as_properties(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        reply = await broker.core.client().call(26)
        shown = properties.parse(reply.body.decode())
        assert shown["brokerName"] == "broker-a"
        assert shown["fileReservedTime"] == "72"
        assert '"counter":0' in reply.fields["version"]


@in_loop
async def test_allowed_keys_change_and_reach_the_core(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        body = b"fileReservedTime=48\nlongPollingEnable=false\n"
        assert (await client.call(25, body)).code == 0
        assert broker.settings.fileReservedTime == 48
        assert broker.core.options == {"long_polling": 0}
        assert '"counter":1' in (await client.call(26)).fields["version"]


@in_loop
async def test_any_other_key_refuses_the_whole_request_by_name(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for key in ("storePathRootDir", "listenPort", "configBlackList", "nonsense"):
            reply = await client.call(25, f"fileReservedTime=48\n{key}=1\n".encode())
            assert reply.code == 16
            assert key in (reply.remark or "")
            assert broker.settings.fileReservedTime == 72


@in_loop
async def test_wrong_values_are_refused(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for body in (b"fileReservedTime=soon", b"fileReservedTime=-1", b"a=\\u12", b"\xff=1"):
            reply = await client.call(25, body)
            assert reply.code in (1, 16)
            assert broker.settings.fileReservedTime == 72
