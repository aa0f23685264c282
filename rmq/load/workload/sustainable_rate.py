"""Sustainable rate: the pace at which producers and consumers keep up, found while the load runs.

The pace is looked for as in the OpenMessaging benchmark (RateController.java). As long as at most
1,000 messages are outstanding, the pace grows by its ramp, at first to twice its value. When more
are outstanding, the pace falls to the rate that was achieved, or to the one that would have left
none outstanding, and the ramp is halved. The benchmark doubles the ramp again whenever all keep up,
so its pace goes up and down for ever between half and one and a half of the sustainable one. Here
the ramp grows more slowly than it shrinks, so the pace settles.

    rate = SustainableRate(10_000.0)
    rate.after(3.0, expected=30_000, sent=30_000, received=30_000)      20_000.0
"""

OUTSTANDING_MAX = 1000
RAMP_MAX, RAMP_MIN = 1.0, 0.01
RAMP_GROWTH = 1.2
RATE_MIN = 1.0


class SustainableRate:
    def __init__(self, rate: float) -> None:
        self.rate = rate  # messages a second
        self.ramp = RAMP_MAX
        self.sent = self.received = 0  # of each subscription; since the start

    def after(self, seconds: float, expected: float, sent: int, received: int) -> float:
        """The pace from now on. expected: messages that were due in these `seconds`, which is not
        rate * seconds, because producers adopt a new pace some ms late. sent and received are
        counts since the start."""
        sent_now, received_now = sent - self.sent, received - self.received
        self.sent, self.received = sent, received
        for done, behind in ((received_now, sent - received), (sent_now, expected - sent_now)):
            if behind > OUTSTANDING_MAX:
                self.ramp = max(RAMP_MIN, self.ramp / 2)
                self.rate = max(RATE_MIN, min(done, expected - behind) / seconds)
                return self.rate
        self.ramp = min(RAMP_MAX, self.ramp * RAMP_GROWTH)
        self.rate *= 1 + self.ramp
        return self.rate
