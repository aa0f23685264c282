"""Builds the compiled half of rmq: every .pyx under cext/ becomes one extension module.

Environment:
    RMQ_BUILD     release (default) | debug | asan | tsan | none: what stands in cext/ is used,
                  where pip install -e would compile all of it again, in a folder of its own
    RMQ_ANNOTATE  1 writes Cython's HTML reports beside the generated C (build/cython)
    RMQ_JOBS      number of parallel compilers (default: the cores this process may use)
"""

import os
import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

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
    # tests/unit/store. Counters that are read while they move are known races.
    "tsan": (["-O1", "-g1", "-fno-omit-frame-pointer", "-fsanitize=thread"], ["-fsanitize=thread"]),
}
# What Cython itself generates trips these; everything else that gcc warns of is ours to mend.
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
    """On x86-64 gcc zeroes and copies structs of a few hundred bytes by `rep stos`, which takes the
    processor 21 ns to begin with; glibc's own loop needs 9, an unrolled one of 136 bytes 4."""
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
    """True when the last build used other flags: setuptools compares times, not flags."""
    stamp = ROOT / "build" / "profile"
    try:
        last = stamp.read_text()
    except OSError:
        last = ""
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(profile)
    return last not in ("", profile)


def write_build_stamp(profile: str) -> None:
    """cext/_build.py says which version was compiled; cext/__init__.py compares it at import."""
    version = re.search(r'__version__ = "(.+)"', (ROOT / "rmq" / "__init__.py").read_text())
    assert version is not None
    stamp = f'"""Written by setup.py."""\n\nVERSION = "{version[1]}"\nPROFILE = "{profile}"\n'
    path = ROOT / "cext" / "_build.py"
    if not path.exists() or path.read_text() != stamp:
        path.write_text(stamp)


def extensions(profile: str) -> list[Extension]:
    compile_args, link_args = PROFILES[profile]
    compile_args = [*compile_args, *string_flags(profile)]
    return [
        Extension(
            ".".join(path.relative_to(ROOT).with_suffix("").parts),
            [str(path.relative_to(ROOT))],
            include_dirs=["cext/c"],
            extra_compile_args=["-std=gnu11", "-pthread", *compile_args, *WARNINGS],
            extra_link_args=["-pthread", *link_args],
        )
        for path in sorted((ROOT / "cext").rglob("*.pyx"))
    ]


def compile_and_set_up(profile: str) -> None:
    """Raises SystemExit when there is no such profile."""
    if profile not in PROFILES:
        raise SystemExit(f"RMQ_BUILD={profile}: choose one of {', '.join(PROFILES)}, none")
    from Cython.Build import cythonize

    force = force_after_profile_change(profile)
    write_build_stamp(profile)
    jobs = int(os.environ.get("RMQ_JOBS", len(os.sched_getaffinity(0))))
    setup(
        ext_modules=cythonize(
            extensions(profile),
            nthreads=jobs if sys.version_info < (3, 14) else 0,
            build_dir="build/cython",
            force=force,
            annotate=os.environ.get("RMQ_ANNOTATE") == "1",
            show_all_warnings=False,
            compiler_directives={
                "language_level": 3,
                "boundscheck": False,
                "wraparound": False,
                "initializedcheck": False,
                "cdivision": True,
                "embedsignature": True,
                "freethreading_compatible": False,
            },
        ),
        options={"build_ext": {"parallel": jobs, "force": force, "inplace": True}},
    )


if __name__ == "__main__":
    refuse_unsupported()
    os.chdir(ROOT)
    profile = os.environ.get("RMQ_BUILD", "release")
    if profile == "none":
        setup()
    else:
        compile_and_set_up(profile)
