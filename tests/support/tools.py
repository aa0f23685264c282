"""Tools: loads a script of tools/ as a module, because that folder is not a package."""

import importlib.util
from types import ModuleType

from support.source_tree import ROOT


def load_tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
