"""mqadmin 5.5.0: commands for RocketMQ's other engines, commands that do not end, and the page that
lists all commands (docs/mqadmin.md).

Method: as in test_mqadmin.py; a command that does not end has a JVM of its own, which is killed.
The page is compared with the jar, which lists its commands by itself. That the page names the right
tests, and that no server of rmq answers what the page calls not supported, is checked in
tests/source/test_mqadmin_page.py.
"""

from __future__ import annotations

import re

import pytest
from compat.mqadmin import BROKER, CLUSTER, Admin, Live, eventually
from compat.targets import Target
from support.mqadmin_page import read_page

from tools.peers.mqadmin import endless_mqadmin

# Commands that must be refused, with their arguments. @: the broker's address, %: a topic, $: a
# group.
REFUSED = {
    "addBroker": "-c @ -b /nowhere",
    "removeBroker": f"-c @ -b {CLUSTER}:{BROKER}:1",
    "checkRocksdbCqWriteProgress": f"-c {CLUSTER} -n # -t %",
    "getColdDataFlowCtrInfo": "-b @",
    "updateColdDataFlowCtrGroupConfig": "-b @ -g $ -v 1024",
    "removeColdDataFlowCtrGroupConfig": "-b @ -g $",
    "setCommitLogReadAheadMode": "-b @ -m 1",
    "getBrokerLiteInfo": "-b @",
    "getParentTopicInfo": "-p %",
    "getLiteTopicInfo": "-p % -l lite",
    "getLiteClientInfo": "-p % -g $ -c client@1",
    "getLiteGroupInfo": "-p % -g $",
    "triggerLiteDispatch": "-p % -g $",
}

# These print "error" when a broker refuses them, without the reason.
SILENT = {"getParentTopicInfo", "getLiteTopicInfo", "getLiteClientInfo", "getLiteGroupInfo",
          "triggerLiteDispatch"}  # fmt: skip


@pytest.mark.parametrize("command", REFUSED)
def test_what_is_not_supported_says_so(
    admin: Admin, target: Target, live: Live, command: str
) -> None:
    if target.kind != "rmq":
        pytest.skip("RocketMQ's broker has what these ask for")
    given = {"@": target.broker, "#": target.name_server, "%": live.topic, "$": live.consumer_group}
    output = admin(command, *(given.get(word, word) for word in REFUSED[command].split()))
    if command in SILENT:
        assert re.search(rf"\b{BROKER}\b\]? +error\b", output), output
        return
    told = re.findall(r"CODE: 3 +DESC: +request type (\d+) not supported", output)
    assert {int(code) for code in told} == set(read_page()[command].codes), output


def test_tables_pops_and_timers_are_in_files(admin: Admin, target: Target, live: Live) -> None:
    output = admin("rocksDBConfigToJson", "-b", target.broker)
    assert "broker export done." in output, output
    found = (target.store / "config" / "topics.json").read_text()
    assert f'"{live.topic}"' in found
    output = admin("exportPopRecord", "-b", target.broker, "-d", "false")
    assert f"Export broker records, brokerName={BROKER}" in output, output
    output = admin("switchTimerEngine", "-b", target.broker, "-e", "F")
    assert "switchTimerEngine to FILE_TIME_WHEEL success" in output, output
    output = admin("switchTimerEngine", "-b", target.broker, "-e", "R")
    assert re.search(r"CODE: 29 +DESC: timerRocksDBEnable must", output), output


def test_a_flush_offset_is_a_slaves(admin: Admin, target: Target) -> None:
    output = admin("resetMasterFlushOffset", "-b", target.broker, "-o", "7")
    told = "this is a master" if target.kind == "rmq" else "success"
    assert told in output, output


def test_a_setting_of_the_name_server_without_effect_is_kept(admin: Admin, target: Target) -> None:
    words = ["-k", "productEnvName", "-v", "compat", "-n", target.name_server]
    assert "success" in admin("updateNamesrvConfig", *words)
    assert re.search(r"^productEnvName += +compat$", admin("getNamesrvConfig"), re.MULTILINE)


def test_sends_to_the_cluster_are_measured_again_and_again(target: Target) -> None:
    words = ["clusterRT", "-c", CLUSTER, "-a", "3", "-s", "16", "-i", "1"]
    row = re.compile(rf"^{CLUSTER} +{BROKER} +\d+\.\d+ +3 +0$")
    with endless_mqadmin(target.name_server, *words) as process:
        assert process.stdout is not None
        rounds, shown = 0, ""
        for line in process.stdout:
            rounds, shown = rounds + bool(row.match(line.rstrip())), shown + line
            if rounds == 2:
                break
    assert rounds == 2, shown


def test_monitoring_is_a_member_of_its_group(admin: Admin, target: Target) -> None:
    words = ["consumerConnection", "-g", "__MONITOR_CONSUMER"]
    with endless_mqadmin(target.name_server, "startMonitoring") as process:
        shown = eventually(admin, words, r"JAVA +V5_5_0", 60)
        assert re.search(r"^OFFSET_MOVED_EVENT +\*", shown, re.MULTILINE)
        assert process.poll() is None


def test_the_page_lists_the_commands_of_the_jar(admin: Admin) -> None:
    known = set(re.findall(r"^ {3}(\w+) {2,}", admin(), re.MULTILINE))
    assert len(known) > 90, known
    assert known == set(read_page())
    refused = {name for name, row in read_page().items() if row.codes}
    assert refused == REFUSED.keys()
