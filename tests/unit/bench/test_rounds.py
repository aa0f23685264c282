"""Turns alternate, and each result is kept for the peer that it belongs to."""

from rounds import in_turns, interleaved


def test_every_other_round_goes_backwards() -> None:
    called: list[str] = []

    def one(name: str):
        def run() -> str:
            called.append(name)
            return f"{name}{len(called)}"

        return run

    found = in_turns(3, [one("a"), one("b"), one("c")])
    assert called == list("abccbaabc")
    assert found == [["a1", "b2", "c3"], ["a6", "b5", "c4"], ["a7", "b8", "c9"]]
    called.clear()
    assert interleaved(2, one("a"), one("b")) == [("a1", "b2"), ("a4", "b3")]
