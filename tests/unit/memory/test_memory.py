"""Pools, rings and name maps keep their promises under arbitrary use."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cext.testing.memory_probe import names_answer, pool_takes, ring_keeps_order


@given(st.lists(st.sampled_from([1, -1]), max_size=60))
@settings(deadline=None, max_examples=100)
def test_a_pool_never_hands_out_a_buffer_twice_and_counts_refusals(steps):
    result = pool_takes(4096, 5, steps)
    held = high = refused = 0
    for step in steps:
        if step > 0:
            if held == 5:
                refused += 1
            else:
                held += 1
                high = max(high, held)
        elif held:
            held -= 1
    assert result == {
        "in_use": held,
        "high_water": high,
        "refusals": refused,
        "distinct": held,
        "held": held,
    }


def test_a_ring_keeps_order_between_two_threads_and_is_empty_at_the_end():
    assert ring_keeps_order(200_000, 64)


NAMES = st.sampled_from([b"name-%d" % n for n in range(40)] + [b"", b"a", b"\x00\x01", b"x" * 300])
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, st.integers(1, 2**40)),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("find"), NAMES),
)


@given(st.lists(STEPS, max_size=300))
@settings(deadline=None, max_examples=200)
def test_a_name_map_behaves_like_a_dict(steps):
    answers, found = names_answer(steps)
    model: dict[bytes, int] = {}
    for step, answer in zip(steps, answers, strict=True):
        if step[0] == "put":
            model[step[1]] = step[2]
            assert answer == 0
        elif step[0] == "remove":
            assert answer == model.pop(step[1], 0)
        else:
            assert answer == model.get(step[1], 0)
    assert found == model


def test_a_name_map_grows_past_its_first_table():
    steps = [("put", b"topic-%d" % n, n + 1) for n in range(20_000)]
    _answers, found = names_answer(steps)
    assert len(found) == 20_000
    assert found[b"topic-777"] == 778
