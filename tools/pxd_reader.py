"""Pxd reader: generates C from .pyx files, reading each .pxd once a process, not once a module.

A module of cext/flow cimports some 70 .pxd files, mostly through others, and reading those was four
fifths of Cython's work on the module. So one process reads them into one Context of Cython, and
each module is generated in a fork of that process; what the fork adds to the Context ends with it.

The C must not depend on what a process read before. Two parts of a Context would make it depend on
that, and are corrected in the fork. The list of files whose inline functions are emitted (`pxds`)
is made anew: from what the module itself cimports, in the order in which Cython alone would have
read it. And `#include` lines are sorted by the order in which the module comes across them, not in
which they were first read.
"""

import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import Cython
from Cython.Build.Dependencies import (
    create_dependency_tree,
    parse_dependencies,
    resolve_depends,
)
from Cython.Build.SharedModule import generate_shared_module
from Cython.Compiler import Code, Errors
from Cython.Compiler.Main import CompilationOptions, Context, compile_single, default_options

FAILED = 1  # the source is wrong, and Cython has said so
BROKEN = 2  # the insides of Cython that are used here have changed


def options(
    directives: Mapping[str, Any], generated: str | None = None, shared: str | None = None
) -> Any:
    """`shared` is the module that has Cython's own functions. None: each module has its own."""
    return CompilationOptions(
        default_options,
        include_path=["."],
        compiler_directives=dict(directives),
        output_file=generated,
        annotate=os.environ.get("RMQ_ANNOTATE") == "1",
        shared_utility_qualified_name=shared,
    )


def generate_shared(name: str, directives: Mapping[str, Any], generated: Path) -> None:
    """Generates the module that has Cython's own functions. Those of typed memoryviews are left
    out: they are two thirds of it, and no module has such a view."""
    generated.parent.mkdir(parents=True, exist_ok=True)
    chosen = CompilationOptions(
        default_options,
        compiler_directives=dict(directives),
        module_name=name,
        shared_c_file_path=str(generated),
        shared_utility_features_disabled=["MemoryView"],
    )

    def work() -> int:
        generate_shared_module(chosen)
        return FAILED if Errors.get_errors_count() > 0 else 0

    if in_fork(work):
        raise SystemExit(f"{name}: Cython cannot generate it")


def is_of_another_cython(generated: Path) -> bool:
    """Whether Cython was installed after the C was generated."""
    installed = Path(Cython.__file__).stat().st_mtime
    return not generated.exists() or generated.stat().st_mtime < installed


def is_outdated(generated: Path, source: str) -> bool:
    """Whether the source, or anything it includes or cimports, is newer than its C."""
    return (
        not generated.exists()
        or generated.stat().st_mtime < create_dependency_tree().newest_dependency(source)[0]
    )


def c_headers(source: str, include_dirs: list[str]) -> list[str]:
    """The headers that the C will include: those of the source, and of all that it cimports."""
    declared = create_dependency_tree().distutils_info(source).values.get("depends", [])
    return sorted(resolve_depends(declared, include_dirs))


class RecordingContext(Context):  # type: ignore[misc]
    """Notes which .pxd cimports which, and lists in `pxds` only what `emitting` asks for."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.cimports: dict[str, list[str]] = {}  # by .pxd: what it cimports, in its order
        self.reading: list[str] = []  # .pxd files being read, each cimported by the one before
        self.read: dict[str, Any] | None = None  # in a fork: what was read before it
        self.used: dict[str, list[Any]] = {}  # by .pxd: those of its names that it uses itself
        self.numbered: dict[int, Any] = {}  # includes that the module has come across

    def find_module(self, module_name: str, *args: Any, **named: Any) -> Any:
        if self.reading:
            self.cimports[self.reading[-1]].append(module_name)
        self.cimports.setdefault(module_name, [])
        self.reading.append(module_name)
        try:
            scope = super().find_module(module_name, *args, **named)
        finally:
            self.reading.pop()
        if self.read is not None:
            self.emit(module_name, set())
            self.number_includes(scope)
        if module_name in self.pxds and module_name not in self.used:
            entries = self.pxds[module_name][1].entries.values()
            self.used[module_name] = [entry for entry in entries if entry.used]
        return scope

    def emit(self, name: str, seen: set[str]) -> None:
        """Lists a .pxd in `pxds`, after those that it cimports."""
        assert self.read is not None
        if name in seen or name in self.pxds:
            return
        seen.add(name)
        for each in self.cimports.get(name, ()):
            self.emit(each, seen)
        if name in self.read:
            self.pxds[name] = self.read[name]
            for entry in self.used[name]:
                entry.used = True

    def forget(self) -> None:
        """In a fork: what was read before stays known, but is emitted only when asked for."""
        self.read, self.pxds = self.pxds, {}
        for _, scope in self.read.values():
            for entry in scope.entries.values():
                entry.used = False

    def number_includes(self, scope: Any) -> None:
        """Puts the includes of a module into the order in which the module comes across them."""
        for include in scope.c_includes.values():
            if id(include) not in self.numbered:
                self.numbered[id(include)] = include
                include.order = Code.IncludeCode.counter
                Code.IncludeCode.counter += 1
        # Cython's key of an include without a file name is its number.
        includes = {each.mainpiece() or each.order: each for each in scope.c_includes.values()}
        scope.c_includes.clear()
        scope.c_includes.update(includes)


class PxdReader:
    """The C generator of one process.

    Cython makes no promise about the insides that are used here. If they have changed, a module is
    generated as Cython alone does it, with a warning: the build is slower, not broken.
    """

    def __init__(self, directives: Mapping[str, Any], shared: str | None = None) -> None:
        self.directives = directives
        self.shared = shared
        self.context: RecordingContext | None = RecordingContext.from_options(
            options(directives, shared=shared)
        )

    def generate(self, name: str, source: str, generated: Path) -> None:
        """Generates the C. Raises SystemExit after Cython has written what is wrong to stderr."""
        generated.parent.mkdir(parents=True, exist_ok=True)
        failed = BROKEN
        if self.context is not None:
            try:
                self._read(name, source)
                failed = in_fork(lambda: self._generate(name, source, generated))
            except Exception:
                traceback.print_exc()
        if failed == BROKEN:
            if self.context is not None:
                print("warning: this Cython reads each .pxd anew for every module", file=sys.stderr)
            self.context = None
            failed = in_fork(lambda: self._generate(name, source, generated))
        if failed:
            raise SystemExit(f"{source}: Cython cannot compile it")

    def _read(self, name: str, source: str) -> None:
        assert self.context is not None
        Errors.reset()
        Errors.open_listing_file(None)
        for module in [name, *parse_dependencies(source)[0]]:
            if self.context.find_pxd_file(module) is not None:
                self.context.find_module(module)
        if Errors.get_errors_count() > 0:
            raise SystemExit(f"{source}: its .pxd files do not compile")

    def _generate(self, name: str, source: str, generated: Path) -> int:
        chosen = options(self.directives, str(generated), self.shared)
        if self.context is not None:
            self.context.forget()
            self.context.options = chosen
        done = compile_single(source, chosen, name, context=self.context)
        return FAILED if done.num_errors > 0 else 0


def in_fork(work: Callable[[], int]) -> int:
    """Runs the work in a fork. Returns its status, or BROKEN after printing its traceback."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = BROKEN
    try:
        status = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
