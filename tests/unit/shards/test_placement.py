"""Shards get cores, nodes, ports and stores from what the kernel reports, here from trees of files.

Not shown here: that a real machine with several nodes agrees. Pinning itself is tested on this one.
"""

import ctypes
import os
import threading
from pathlib import Path

import pytest
from support.fake_machine import fake_machine
from support.waiting import HANG_S

from rmq.config import load_properties
from rmq.errors import ConfigError
from rmq.system import affinity
from rmq.system.topology import Topology, home_node, parse_cpu_list, read_topology
from shards.placement import auto_count, parse_shards, place, shard_values


def machine_of(root: Path, **shape: object) -> Topology:
    return read_topology(root, fake_machine(root, **shape))  # type: ignore[arg-type]


def places(topology: Topology, count: int, **settings: str) -> list[tuple[int, tuple[int, ...]]]:
    found = place(load_properties(None, settings), count, topology)
    return [(each.node, each.cpus) for each in found]


@pytest.mark.parametrize("nodes", [1, 2, 4, 8])
def test_shards_are_dealt_out_over_the_nodes_in_turn(tmp_path: Path, nodes: int) -> None:
    topology = machine_of(tmp_path, nodes=nodes, cores=8)
    assert topology.nodes() == tuple(range(nodes))
    found = places(topology, nodes * 2)
    assert [node for node, _ in found] == list(range(nodes)) * 2
    assert len({cpus for _, cpus in found}) == nodes * 2
    assert (0,) not in [cpus for _, cpus in found]  # core 0 is left to the system
    for node, cpus in found:
        assert set(cpus) <= set(topology.cpus_of_node(node))


def test_hardware_threads_of_one_core_stay_together(tmp_path: Path) -> None:
    topology = machine_of(tmp_path, nodes=2, cores=2, threads=2)
    assert [core.cpus for core in topology.cores] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert auto_count(topology) == 4
    assert places(topology, 4) == [(0, (0, 4)), (1, (2, 6)), (0, (1, 5)), (1, (3, 7))]


def test_offline_cores_are_not_used(tmp_path: Path) -> None:
    topology = machine_of(tmp_path, nodes=2, cores=2, offline={1, 2})
    assert [(core.node, core.cpus) for core in topology.cores] == [(0, (0,)), (1, (3,))]


def test_half_a_core_that_is_offline_leaves_the_other_half(tmp_path: Path) -> None:
    topology = machine_of(tmp_path, cores=2, threads=2, offline={2})
    assert [core.cpus for core in topology.cores] == [(0,), (1, 3)]


def test_cpuset_of_the_cgroup_limits_the_cores(tmp_path: Path) -> None:
    topology = machine_of(tmp_path, nodes=2, cores=4, cpuset="2-3,5")
    assert [(core.node, core.cpus) for core in topology.cores] == [(0, (2,)), (0, (3,)), (1, (5,))]


def test_cpuset_of_an_outer_cgroup_counts_when_the_own_one_says_nothing(tmp_path: Path) -> None:
    cpus = fake_machine(tmp_path, cores=4, cgroup="/outer/inner")
    outer = tmp_path / "sys/fs/cgroup/outer"
    (outer / "cpuset.cpus.effective").write_text("0-1\n")
    assert len(read_topology(tmp_path, cpus).cores) == 2


def test_old_cgroups_are_read_too(tmp_path: Path) -> None:
    cpus = fake_machine(tmp_path, cores=8)
    (tmp_path / "proc/self/cgroup").write_text("5:cpuset:/box\n4:cpu,cpuacct:/box\n")
    for name, values in {
        "cpuset": {"cpuset.cpus": "0-5"},
        "cpu": {"cpu.cfs_quota_us": "300000", "cpu.cfs_period_us": "100000"},
    }.items():
        directory = tmp_path / "sys/fs/cgroup" / name / "box"
        directory.mkdir(parents=True)
        for file, text in values.items():
            (directory / file).write_text(text)
    topology = read_topology(tmp_path, cpus)
    assert len(topology.cores) == 6
    assert topology.quota_cores == 3.0


def test_affinity_limits_the_cores(tmp_path: Path) -> None:
    fake_machine(tmp_path, cores=4, threads=2)
    assert [core.cpus for core in read_topology(tmp_path, {1, 5, 2}).cores] == [(1, 5), (2,)]


def test_machine_that_hides_its_topology_counts_processors(tmp_path: Path) -> None:
    topology = read_topology(tmp_path, {0, 1, 2})
    assert [(core.node, core.cpus) for core in topology.cores] == [(0, (0,)), (0, (1,)), (0, (2,))]
    assert topology.quota_cores is None


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ({"cores": 1}, 1),
        ({"cores": 2}, 2),
        ({"cores": 4}, 4),
        ({"cores": 4, "threads": 2}, 4),
        ({"cores": 8}, 7),  # one core is left to the system
        ({"cores": 8, "nodes": 8}, 63),
        ({"cores": 8, "quota": "250000 100000"}, 2),
        ({"cores": 8, "quota": "max 100000"}, 7),
        ({"cores": 8, "quota": "50000 100000"}, 1),
    ],
)
def test_auto_is_one_shard_a_physical_core(
    tmp_path: Path, shape: dict[str, object], count: int
) -> None:
    assert parse_shards("auto", machine_of(tmp_path, **shape)) == count


def test_more_shards_than_cores_are_bound_to_none(tmp_path: Path) -> None:
    topology = machine_of(tmp_path, cores=2)
    assert places(topology, 3) == [(-1, ()), (-1, ()), (-1, ())]


@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_more_shards_than_cores_still_have_a_node_each(tmp_path: Path, nodes: int) -> None:
    topology = machine_of(tmp_path, nodes=nodes, cores=1, threads=2)
    found = place(load_properties(None, {}), 2 * nodes + 1, topology)
    assert [each.node for each in found] == [*range(nodes), *range(nodes), 0]
    assert all(each.cpus == () for each in found)
    assert all(each.node_cpus == topology.cpus_of_node(each.node) for each in found)
    unbound = place(load_properties(None, {}), 2 * nodes + 1, topology, bind=False)
    assert {(each.node, each.node_cpus) for each in unbound} == {(-1, ())}


@pytest.mark.parametrize(
    ("shape", "node"),
    [
        ({"nodes": 1, "cores": 8}, -1),  # there is no other node
        ({"nodes": 2, "cores": 4}, 0),
        ({"nodes": 4, "cores": 2, "threads": 2}, 0),
        ({"nodes": 8, "cores": 2}, 0),
        ({"nodes": 2, "cores": 4, "cpuset": "2-6"}, 1),  # more of node 1 than of node 0
        ({"nodes": 2, "cores": 4, "cpuset": "4-7"}, -1),  # the cpuset has chosen already
        ({"nodes": 2, "cores": 2, "threads": 2, "offline": {0}}, 1),  # half a core is offline
    ],
)
def test_broker_of_one_shard_keeps_to_the_node_with_most_processors(
    tmp_path: Path, shape: dict[str, object], node: int
) -> None:
    assert home_node(machine_of(tmp_path, **shape)) == node


def test_shard_0_keeps_name_port_and_store_of_a_broker_of_one(tmp_path: Path) -> None:
    settings = load_properties(None, {"brokerName": "b", "storePathRootDir": "/s"})
    found = place(settings, 3, machine_of(tmp_path))
    assert [(each.name, each.port, str(each.store)) for each in found] == [
        ("b", 10911, "/s"), ("b-1", 10921, "/s/shard-1"), ("b-2", 10931, "/s/shard-2"),
    ]  # fmt: skip


def test_settings_of_a_shard_are_the_given_ones_and_its_place(tmp_path: Path) -> None:
    given = {"storePathRootDir": "/s", "fileReservedTime": "5", "storePathCommitLog": "/logs",
             "haListenPort": "10912", "listenPort": "0", "brokerRole": "SLAVE", "brokerId": "1",
             "rmqMasterAddress": "10.0.0.5:10911", "storePathEpochFile": "/e/epochs",
             "storePathBrokerIdentity": "/e/identity"}  # fmt: skip
    settings = load_properties(None, given)
    first, second = place(settings, 2, machine_of(tmp_path))
    assert shard_values(settings, first) == given | {"brokerName": "broker-a"}
    values = shard_values(settings, second)
    assert values["storePathRootDir"] == "/s/shard-1"
    assert values["storePathCommitLog"] == "/logs/shard-1"
    assert values["storePathEpochFile"] == "/e/epochs-shard-1"
    assert values["storePathBrokerIdentity"] == "/e/identity-shard-1"
    assert values["fileReservedTime"] == "5"
    assert (values["listenPort"], values["haListenPort"]) == ("0", "10922")
    assert values["rmqMasterAddress"] == "10.0.0.5:10921"
    load_properties(None, values)


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "257", "1.5"])
def test_numbers_of_shards_that_make_no_sense_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="from 1 to 256"):
        parse_shards(text, machine_of(tmp_path))


def test_ports_beyond_the_last_one_are_refused(tmp_path: Path) -> None:
    settings = load_properties(None, {"listenPort": "65530"})
    with pytest.raises(ConfigError, match="shard 1 would listen on 65540"):
        place(settings, 2, machine_of(tmp_path))


@pytest.mark.parametrize("text", ["3-1", "a", "1-", "99999", "-"])
def test_malformed_lists_of_processors_are_errors(text: str) -> None:
    with pytest.raises(ValueError):
        parse_cpu_list(text)


def test_this_machine_has_a_core_we_may_use() -> None:
    topology = read_topology()
    assert {cpu for core in topology.cores for cpu in core.cpus} <= os.sched_getaffinity(0)
    assert topology.cores


def in_a_thread(work: object) -> object:
    """Runs it in a thread of its own, because policies stick to a thread and must not stick to that
    of other tests."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(work()))  # type: ignore[operator]
    thread.start()
    thread.join()
    return found[0]


def test_thread_keeps_to_the_processors_it_is_allowed() -> None:
    one = min(os.sched_getaffinity(0))

    def work() -> tuple[str, set[int]]:
        return affinity.allow([one]), os.sched_getaffinity(0)

    assert in_a_thread(work) == ("", {one})


def test_children_begin_where_they_are_put_and_spread_when_they_serve() -> None:
    """A child must begin on the processors that it is given, with the batch policy, and the starter
    must be as before afterwards. A thread that is started meanwhile stands for the child, which
    inherits both in the same way."""
    everywhere = os.sched_getaffinity(0)
    one = min(everywhere)

    def place_now() -> tuple[set[int], int]:
        return os.sched_getaffinity(0), os.sched_getscheduler(0)

    def work() -> tuple[object, object]:
        with affinity.children_on([one]):
            child = in_a_thread(place_now)
        return child, place_now()

    assert in_a_thread(work) == (({one}, os.SCHED_BATCH), (everywhere, os.SCHED_OTHER))


def test_spreading_leaves_the_reactor_where_it_is() -> None:
    everywhere = os.sched_getaffinity(0)
    one = min(everywhere)
    found: dict[str, tuple[set[int], int]] = {}
    spreading = threading.Event()

    def stay(name: str) -> None:
        Path("/proc/thread-self/comm").write_text(name)
        os.sched_setaffinity(0, {one})
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        ready.release()
        spreading.wait(HANG_S)
        found[name] = (os.sched_getaffinity(0), os.sched_getscheduler(0))

    ready = threading.Semaphore(0)
    names = ("rmq-test-apart", "rmq-test-other")
    threads = [threading.Thread(target=stay, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
        assert ready.acquire(timeout=HANG_S)
    failure = affinity.spread(everywhere, names[0])
    spreading.set()
    for thread in threads:
        thread.join()
    assert failure == ""
    assert found == {
        names[0]: ({one}, os.SCHED_OTHER),
        names[1]: (everywhere, os.SCHED_OTHER),
    }


def test_thread_is_found_by_its_name() -> None:
    one = min(os.sched_getaffinity(0))

    def work() -> tuple[str, set[int]]:
        Path("/proc/thread-self/comm").write_text("rmq-test-x")
        return affinity.pin_thread("rmq-test-x", [one]), os.sched_getaffinity(0)

    assert in_a_thread(work) == ("", {one})
    assert affinity.pin_thread("rmq-nobody", [one]) == "no thread rmq-nobody"


def test_memory_policy_is_set_by_the_system_call() -> None:
    def work() -> tuple[str, int]:
        failure = affinity.prefer_node(0)
        mode = ctypes.c_int(-1)
        libc = ctypes.CDLL(None)
        number = {"x86_64": 239, "aarch64": 236}[os.uname().machine]
        got = libc.syscall(ctypes.c_long(number), ctypes.byref(mode), None, ctypes.c_ulong(0),
                           None, ctypes.c_ulong(0))  # fmt: skip
        return failure, mode.value if got == 0 else -2

    failure, mode = in_a_thread(work)  # type: ignore[misc]
    if failure:
        pytest.skip(f"not allowed here: {failure}")
    assert mode in (affinity.MPOL_PREFERRED, -2)
    assert affinity.prefer_node(-1) == ""
    refused = in_a_thread(lambda: affinity.prefer_node(1000))
    assert str(refused).startswith("memory of node 1000: ")
