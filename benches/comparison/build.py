"""Find or make the programs: nginx, wrk, the C server, the client, data-server."""

import json
import os
import shutil
import subprocess
from pathlib import Path

BENCHES = Path(__file__).resolve().parent.parent
PROJECT = BENCHES.parent
PROFILES = BENCHES / "profile"
WRAPPERS = {"RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER"}  # of the user's: cargo takes no other beside one of these

# Debian starts the services it installs unless this file forbids it; ours goes when the packages are in.
INSTALL = """
set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\\nexit 101\\n' > $policy
    chmod +x $policy
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends "$@"
"""


class Missing(Exception):
    """Something the comparison needs is not there and cannot be had."""


def find_or_install(program, package):
    """The path of a program, from its Debian package when it is not there."""
    if not _which(program):
        print(f"installing {package} for {program}", flush=True)
        as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        try:
            subprocess.run([*as_root, "sh", "-c", INSTALL, "install", package], stdout=subprocess.DEVNULL, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Missing(f"{program} is missing and could not be installed: {error}") from error
    return _which(program)


def find_program(program):
    """The path of a program that is not installed for a comparison."""
    if not (found := _which(program)):
        raise FileNotFoundError(2, "not there", program)
    return found


def find_nginx():
    """nginx with the module that takes PUT and DELETE."""
    nginx = find_or_install("nginx", "nginx-light")
    if "http_dav_module" not in nginx_version(nginx):
        raise Missing(f"{nginx} was built without http_dav_module: it cannot take PUT")
    return nginx


def nginx_version(nginx):
    """What `nginx -V` says."""
    return subprocess.run([nginx, "-V"], capture_output=True, text=True, check=True).stderr


def _which(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def target_directory():
    """Where cargo builds; our C programs are built there too."""
    command = ["cargo", "metadata", "--no-deps", "--format-version=1"]
    try:
        found = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
        return Path(json.loads(found.stdout)["target_directory"])
    except (OSError, subprocess.CalledProcessError):
        return Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))


def build_c(source, target, *more):
    """Compile one C file, unless it was compiled since it changed, with these flags `more`; returns the program."""
    source, program = BENCHES / source, target / "compare" / Path(source).stem
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    flags = "-std=c11 -O3 -march=native -Wall -Wextra -pthread".split()
    subprocess.run(["cc", *flags, *more, "-o", str(program), str(source)], check=True)
    return program


def build_server(target, is_smoke=False, triple=None):
    """data-server as it is released: beside tests and examples its dependencies would have more features.

    To see that all works, the profile of the tests will do, and its features: what takes longest is to build the others.
    """
    if triple and triple.endswith("musl"):
        find_or_install("musl-gcc", "musl-tools")
    beside = ["--example", "constant"] if is_smoke else []
    return _cargo_build(target, is_smoke, triple, "--bin", "data-server", *beside) / "data-server"


def compiler():
    """What the compiler says of itself, and the target that it builds for."""
    said = subprocess.run(["rustc", "-vV"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    return said, next(line.removeprefix("host: ") for line in said.splitlines() if line.startswith("host: "))


def is_trained():
    """Whether a release build uses a profile, as benches/profile/rustc decides."""
    said, host = compiler()
    made_by = PROFILES / host / "compiler"
    return not WRAPPERS & os.environ.keys() and made_by.exists() and made_by.read_text() == said


def build_constant(target, is_smoke=False, triple=None):
    """The constant answer, by the same HTTP library."""
    return _cargo_build(target, is_smoke, triple, "--example", "constant") / "examples" / "constant"


def _cargo_build(target, is_smoke, triple, *what):
    """Where it is then; a `triple` names a target of Rust other than the machine's."""
    command = ["cargo", "build", "--locked", "--profile", "dev" if is_smoke else "release", *what]
    subprocess.run([*command, *(["--target", triple] if triple else [])], cwd=PROJECT, check=True)
    return target / (triple or "") / ("debug" if is_smoke else "release")


def versions(programs):
    """The versions of what takes part, for the results."""
    return {
        "nginx": nginx_version(programs["nginx"]).split("\n", 1)[0].split("/")[-1] if "nginx" in programs else None,
        "cc": _first_line(["cc", "--version"]),
        "rustc": _first_line(["rustc", "--version"]),
        "commit": commit(),
    }


def commit():
    """The commit measured; `+` marks changes on top of it."""
    found = _first_line(["git", "rev-parse", "--short=12", "HEAD"])
    if not found:
        return None
    return found + ("+" if _first_line(["git", "status", "--porcelain", "--untracked-files=no"]) else "")


def _first_line(command):
    try:
        run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return run.stdout.split("\n", 1)[0].strip()
