from cext.load.histogram import Histogram

class EventLoop:
    latency: Histogram
    def run(self, microseconds: int) -> bool: ...
