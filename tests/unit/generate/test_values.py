"""The values that users give for generated files are checked before they are written there.

Goal: no value can have a meaning of its own in YAML, in a unit, in a shell or in PromQL. Method:
`rmq generate` with values of each kind. Not shown here: that an image or a storage class exists.
"""

import pytest
from support.command_line import rmq

from rmq.generate import checks

IMAGE = ("--image", "registry.example.org/rmq:0.1.0")
# Each of these has a meaning in one of these languages.
SIGNS = " \t\n\"'`$%{}[]&*#!|>:;,?\\()<=@~^\0é"
CHECKS = (checks.name, checks.label, checks.image, checks.memory, checks.cores, checks.user,
          checks.absolute_path, checks.ipv4_address)  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
def test_no_sign_that_means_something_passes(check: checks.Check) -> None:
    for sign in SIGNS:
        if check is checks.image and sign in ":@":
            continue  # of a tag or a digest, which the next test checks
        for text in (sign, f"/a{sign}", f"a{sign}b", f"1Gi{sign}", f"{sign}2", f"10.0.0.5{sign}"):
            with pytest.raises(ValueError):
                check(text)
                pytest.fail(f"{text!r} passes")


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (checks.name, ["DefaultCluster", "a_b-1"], ["", "-a", "a" * 64]),
        (checks.label, ["rmq", "rmq-2"], ["", "Rmq", "2rmq", "rmq-", "a" * 41]),
        (
            checks.image,
            ["rmq", "localhost/rmq:0.1.0", "r.example.org:5000/team/rmq:1",
             f"rmq@sha256:{'0' * 64}"],
            ["", "Rmq", "rmq:", "rmq@sha256:0", "rmq//a", "-rmq", "rmq:a b"],
        ),
        (checks.memory, ["512Mi", "2Gi"], ["", "2", "0Gi", "2GB", "2gi", "-1Gi"]),
        (checks.cores, ["1", "2.5", "0.5", "500m"], ["", "0", "0.0", "0.50", "m", "-1", "1e3"]),
        (checks.user, ["rmq", "_rmq"], ["", "Rmq", "1a", "a" * 32]),
        (
            checks.path_for_units,
            ["/opt/rmq", "/srv/rmq-1", "/homes/rmq"],
            ["", "/", "opt", "/opt/../etc", "/opt//rmq", *checks.HIDDEN,
             *(f"{folder}/a/rmq" for folder in checks.HIDDEN)],
        ),
        (
            checks.ipv4_address,
            ["127.0.0.1", "10.0.0.5"],
            ["", "0.0.0.0", "224.0.0.1", "10.0.0", "::1", "localhost", "10.0.0.05"],
        ),
    ],
)  # fmt: skip
def test_what_is_taken_and_what_is_not(
    check: checks.Check, good: list[str], bad: list[str]
) -> None:
    assert [check(text) for text in good] == good
    for text in bad:
        with pytest.raises(ValueError):
            check(text)


@pytest.mark.parametrize(
    "words",
    [
        ("systemd", "--prefix", f"{checks.HIDDEN[0]}/me/rmq"),
        ("systemd", "--user", "a b"),
        ("systemd", "--config", "etc"),
        ("compose", "--address", "0.0.0.0"),
        ("compose", "--python", "3.9"),
        ("compose", "--image", "a b"),
        ("k8s",),
        ("k8s", *IMAGE, "--name", "Rmq"),
        ("k8s", *IMAGE, "--brokers", "-1"),
        ("k8s", *IMAGE, "--storage", "20"),
        ("k8s", *IMAGE, "--storage-class", "a b"),
        ("helm", *IMAGE, "--memory", "2GB"),
        ("helm", *IMAGE, "--secret", "$x"),
        ("grafana", "--job", 'a"} or vector(1)'),
        ("grafana", "--overwrite"),
        ("grafana", "rmq-alerts.yml", "--out", "x"),
        ("grafana", "nothing.yml"),
    ],
)
def test_a_command_refuses_it_and_says_what_is_wanted(words: tuple[str, ...]) -> None:
    done = rmq("generate", *words)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.strip()
