"""Circles: what imports, or may import, itself by way of others."""

from collections import deque
from collections.abc import Iterable, Mapping

Graph = Mapping[str, set[str]]


def shortest_circle(graph: Graph, start: str) -> list[str] | None:
    """The shortest way from a module back to itself, both ends included; None without one."""
    came_from: dict[str, str] = {}
    waiting = deque([start])
    while waiting:
        module = waiting.popleft()
        for used in sorted(graph[module]):
            if used == start:
                way = [start, module]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if used not in came_from:
                came_from[used] = module
                waiting.append(used)
    return None


def circles(graph: Graph) -> list[list[str]]:
    """Circles that share no module, the shortest first. One that shares a module with a shorter one
    is left out: it is seen when that is opened."""
    found = [way for way in (shortest_circle(graph, module) for module in graph) if way]
    apart: list[list[str]] = []
    for way in sorted(found, key=lambda way: (len(way), way)):
        if all(set(way).isdisjoint(each) for each in apart):
            apart.append(way)
    return apart


def shown(ways: Iterable[list[str]]) -> str:
    return "\n".join("  " + " -> ".join(way) for way in ways)
