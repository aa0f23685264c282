"""Builds the compiled half of rmq: every .pyx under cext/ becomes one extension module.

The modules of cext/testing are for tests only and are not part of a wheel.

Environment:
    RMQ_BUILD     release (default) | debug | asan | tsan |
                  none: compile nothing and use the modules in cext/ (without it, pip install -e
                  would compile all of them again in a folder of its own) |
                  compiled: put the modules in cext/ into a wheel as they are; they must be a
                  release build of this tree
    RMQ_ANNOTATE  1 writes Cython's HTML reports beside the generated C (build/cython)
    RMQ_JOBS      number of parallel compilers (default: the cores this process may use)
    RMQ_PROGRESS  number of an open descriptor, to which a line "[ 37/159] cext/flow/turn" is
                  written for each module that was compiled (default: 1)

One process runs both Cython and gcc for a module, so that neither waits until the other is done
with all modules; the largest modules come first. (setuptools generates all modules one after the
other and then compiles them; that left two cores idle for a quarter of the time.) Each process
reads a .pxd file once, not once for every module that cimports it: see tools/pxd_reader.py.

One more module has no .pyx: what Cython would otherwise write into the C of nearly every module
(function objects, keyword arguments, exceptions). Each module takes it from there when it is
imported.
"""

import contextlib
import gc
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PROFILES = {
    "release": (["-O3", "-g1", "-DNDEBUG", "-fno-plt", "-fno-semantic-interposition"], []),
    "debug": (["-Og", "-g3", "-DRMQ_DEBUG=1"], []),
    "asan": (
        [
            "-O1",
            "-g3",
            "-DRMQ_DEBUG=1",
            "-fno-omit-frame-pointer",
            "-fno-sanitize-recover=undefined",
            "-fsanitize=address,undefined",
        ],
        ["-fsanitize=address,undefined"],
    ),
    # LD_PRELOAD=$(gcc -print-file-name=libtsan.so) setarch -R python -m pytest tests/unit/memory
    # tests/unit/store. Known races: counters that are read while another thread changes them.
    "tsan": (["-O1", "-g1", "-fno-omit-frame-pointer", "-fsanitize=thread"], ["-fsanitize=thread"]),
}
# What no message passes through is compiled with less effort: half of gcc's time for those modules.
# By the beginning of the module's name; debug builds have their own level.
QUICKLY = {
    "cext.flow.control.": "-O1",  # requests of operators
    "cext.testing.": "-O1",  # probes of tests ..
    "cext.testing.driven_": "-O3",  # .. but bench/ measures what these three take as well
    "cext.testing.stage_loops": "-O3",
    "cext.testing.timer_probe": "-O3",
}
# The module that Cython's own functions are in, once for all modules.
SHARED = "cext._cython"
# Libraries that a module is linked with, besides the C library.
LIBRARIES = {
    "cext.wire.signature": ["crypto"],
    "cext.load.signer": ["crypto"],
    "cext.net.socket_bio": ["crypto"],
    "cext.net.tls": ["ssl", "crypto"],
    "cext.net.tls_stream": ["ssl", "crypto"],
    "cext.net.self_signed": ["crypto"],
}
# The flags of the Python that runs the build come first, and they differ: Debian's add a check of
# the stack to each function with an array, 2 % of a turn's instructions. With this flag the same
# code is compiled everywhere.
SAME_EVERYWHERE = ["-fno-stack-protector"]
# The code that Cython generates causes the warnings that are off here; any other warning of gcc is
# about this project's code and must be mended.
WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Wno-missing-field-initializers",
    "-Wno-unused-function",
    "-Wno-sign-compare",
    "-Wno-cast-function-type",
]


def string_flags(profile: str) -> list[str]:
    """Flags that keep gcc from `rep stos`. On x86-64 it zeroes and copies structs of a few hundred
    bytes that way, which takes the processor 21 ns to begin with; glibc's own loop needs 9 ns, an
    unrolled loop over 136 bytes 4 ns. Only gcc knows the flags."""
    if profile != "release" or platform.machine().lower() not in ("x86_64", "amd64"):
        return []
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)
    if "clang" in version.stdout or "Free Software Foundation" not in version.stdout:
        return []
    strategy = "unrolled_loop:192:noalign,libcall:-1:noalign"
    return [f"-mmemset-strategy={strategy}", f"-mmemcpy-strategy={strategy}"]


def refuse_unsupported() -> None:
    machine = platform.machine().lower()
    if sys.platform != "linux" or machine not in ("x86_64", "amd64", "aarch64", "arm64"):
        raise SystemExit(
            f"rmq runs on Linux x86-64 and aarch64 only (epoll, eventfd, fallocate); "
            f"this is {sys.platform} {machine}."
        )


def force_after_profile_change(profile: str) -> bool:
    """True when the last build used another profile, hence other flags: setuptools compares only
    the times of files."""
    stamp = ROOT / "build" / "profile"
    try:
        last = stamp.read_text()
    except OSError:
        last = ""
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(profile)
    return last not in ("", profile)


def write_build_stamp(profile: str) -> None:
    """Writes cext/_build.py, which says which version was compiled; cext/__init__.py compares it
    with rmq's at import."""
    version = re.search(r'__version__ = "(.+)"', (ROOT / "rmq" / "__init__.py").read_text())
    assert version is not None
    path = ROOT / "cext" / "_build.py"
    before = path.read_text() if path.exists() else ""
    values = {"VERSION": version[1], "COMMIT": commit_of(before), "PROFILE": profile}
    lines = [f'{name} = "{value}"\n' for name, value in values.items()]
    stamp = f'"""Written by setup.py."""\n\n{"".join(lines)}'
    if before != stamp:
        path.write_text(stamp)


def commit_of(stamp: str) -> str:
    """The commit of a checkout, with + when a file differs from it, or "" when git cannot tell.
    Without a checkout: the commit in the stamp that came with the sources."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=8", "--exclude=*", "--dirty=+"]
    if (ROOT / ".git").exists():
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            found = subprocess.run(git, capture_output=True, text=True, check=True)
            return found.stdout.strip()
        return ""
    known = re.search(r'COMMIT = "([0-9a-f]+\+?)"', stamp)
    return known[1] if known is not None else ""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def extensions(profile: str) -> list[Extension]:
    compile_args, link_args = PROFILES[profile]
    compile_args = [*SAME_EVERYWHERE, *compile_args, *string_flags(profile)]
    sources = {SHARED: []} | {
        module_of(path): [str(path.relative_to(ROOT))]
        for path in sorted((ROOT / "cext").rglob("*.pyx"))
        if "testing" not in path.relative_to(ROOT).parts or "bdist_wheel" not in sys.argv
    }
    return [
        Extension(
            name,
            source,
            include_dirs=["cext/c"],
            libraries=LIBRARIES.get(name, []),
            extra_compile_args=[
                *("-std=gnu11", "-pthread", *compile_args),
                *(effort(name) if profile == "release" else []),
                *WARNINGS,
            ],
            extra_link_args=["-pthread", *link_args],
        )
        for name, source in sources.items()
    ]


def effort(module: str) -> list[str]:
    """gcc takes the last of several levels: here that of the longest beginning."""
    return [QUICKLY[start] for start in sorted(QUICKLY, key=len) if module.startswith(start)][-1:]


DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": True,
    "freethreading_compatible": False,
}


class BuildModules(build_ext):
    """Builds each module in one process, RMQ_JOBS modules at a time."""

    reader: Any = None  # this process's PxdReader

    def build_extensions(self) -> None:
        from tools.build_pool import at_once

        # What Cython has read stays to the end. Looking through it for garbage, in each fork again,
        # was a tenth of Cython's work.
        gc.disable()
        self.check_extensions_list(self.extensions)
        jobs = int(os.environ.get("RMQ_JOBS", len(os.sched_getaffinity(0))))
        largest_first = sorted(
            range(len(self.extensions)),
            key=lambda number: -size_of(self.extensions[number]),
        )
        for done, (number, compiled) in enumerate(at_once(jobs, largest_first, self.build_one), 1):
            if compiled:
                name = self.extensions[number].name.replace(".", "/")
                total = len(largest_first)
                tell(f"[{done:{len(str(total))}}/{total}] {name}")

    def build_one(self, number: int) -> bool:
        """Returns whether the module had to be compiled."""
        try:
            return self.build_module(self.extensions[number])
        finally:
            sys.stdout.flush()  # so that the log shows a module's lines together

    def build_module(self, extension: Extension) -> bool:
        from tools import pxd_reader

        out = Path(self.get_ext_fullpath(extension.name))
        before = out.stat().st_mtime_ns if out.exists() else 0
        generated = Path("build/cython", *extension.name.split(".")).with_suffix(".c")
        if extension.name == SHARED:
            if self.force or pxd_reader.is_of_another_cython(generated):
                pxd_reader.generate_shared(SHARED, DIRECTIVES, generated)
        else:
            (source,) = extension.sources
            if self.force or pxd_reader.is_outdated(generated, source):
                self.reader = self.reader or pxd_reader.PxdReader(DIRECTIVES, SHARED)
                self.reader.generate(extension.name, source, generated)
            extension.depends = pxd_reader.c_headers(source, extension.include_dirs)
        extension.sources = [str(generated)]
        self.build_extension(extension)
        return out.stat().st_mtime_ns != before


def size_of(extension: Extension) -> int:
    """What takes long to compile is large. The shared module counts as the largest."""
    sizes = [Path(source).stat().st_size for source in extension.sources]
    return sum(sizes) if sizes else sys.maxsize


class TakeModules(build_ext):
    """Takes each module as it is in the tree. `make build` has brought it up to date."""

    def build_extension(self, extension: Extension) -> None:
        built = ROOT / self.get_ext_filename(extension.name)
        written = [(ROOT / source).stat().st_mtime_ns for source in extension.sources]
        if not built.exists() or built.stat().st_mtime_ns < max(written, default=0):
            raise SystemExit(f"{built.relative_to(ROOT)} is not there or too old: make build")
        out = Path(self.get_ext_fullpath(extension.name))
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(built, out)


def set_up_compiled() -> None:
    """Builds in a folder of its own: what compiling left elsewhere may belong to modules that no
    longer exist."""
    profile = ROOT / "build" / "profile"  # the profile that was compiled last
    if (profile.read_text() if profile.exists() else "") != "release":
        raise SystemExit("RMQ_BUILD=compiled: cext/ has no release build: make build")
    setup(
        ext_modules=extensions("release"),
        cmdclass={"build_ext": TakeModules},
        options={"build": {"build_base": "build/wheel/base"}},
    )


def tell(line: str) -> None:
    os.write(int(os.environ.get("RMQ_PROGRESS", 1)), f"{line}\n".encode())


def compile_and_set_up(profile: str) -> None:
    """Compiles with the flags of the profile. Raises SystemExit when there is no such profile."""
    if profile not in PROFILES:
        known = ", ".join((*PROFILES, "none", "compiled"))
        raise SystemExit(f"RMQ_BUILD={profile}: choose one of {known}")
    force = force_after_profile_change(profile)
    write_build_stamp(profile)
    setup(
        ext_modules=extensions(profile),
        cmdclass={"build_ext": BuildModules},
        options={"build_ext": {"force": force, "inplace": True}},
    )


if __name__ == "__main__":
    refuse_unsupported()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))  # for tools/; pip does not add it
    profile = os.environ.get("RMQ_BUILD", "release")
    if sys.argv[1:] == ["stamp"]:  # nothing to compile, but the commit may be a newer one
        write_build_stamp(profile)
    elif profile == "none":
        setup()
    elif profile == "compiled":
        set_up_compiled()
    else:
        compile_and_set_up(profile)
