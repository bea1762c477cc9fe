#!/usr/bin/env python3
"""Names what a build spends its time on.
    tools/build_times.py build             seconds of the targets and of the slowest objects
    tools/build_times.py build --headers   CPU seconds of each header of tern alone
The first reads ninja's log: wall time, so busy machines say more. The second compiles a file that
includes nothing but the header; it fails if one needs what another includes."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROOMS = ("core", "nn", "optim", "data", "train", "models", "decode", "dist", "apps")


def object_seconds(build):
    seconds = {}  # of those built more than once the last
    for line in open(build / ".ninja_log"):
        fields = line.rstrip("\n").split("\t")
        if len(fields) == 5 and fields[3].endswith(".o"):
            seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return seconds


def compiler_words(build):
    """The compiler with what lets it find each header of tern."""
    commands = json.load(open(build / "compile_commands.json"))
    command = next(c["command"] for c in commands if "/tern_apps.dir/" in c["command"])
    words = shlex.split(command)
    names = ("g++", "c++", "clang")
    first = next(i for i, w in enumerate(words) if os.path.basename(w).startswith(names))
    kept = [words[first]]
    for before, word in zip(words[first:], words[first + 1:]):
        if word.startswith(("-D", "-I", "-std", "-isystem")) or before == "-isystem":
            kept.append(word)
    return kept


def header_seconds(words, header):
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(f'#include "tern/{header}"\n')
        source.flush()
        child = subprocess.Popen(words + ["-fsyntax-only", source.name])
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = status
    if status:
        sys.exit(f"{header} does not compile alone")
    return used.ru_utime + used.ru_stime


def show(title, seconds, most):
    print(f"{title}: {sum(seconds.values()):.0f} s")
    for name, value in sorted(seconds.items(), key=lambda item: -item[1])[:most]:
        print(f"{value:8.1f}  {name}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
parser.add_argument("build", type=pathlib.Path, help="a folder that ninja built in")
parser.add_argument("--headers", action="store_true")
parser.add_argument("--most", type=int, default=20, help="lines of each list")
asked = parser.parse_args()
if asked.headers:
    files = [f for room in ROOMS for f in (ROOT / room).rglob("*.h")]
    headers = ["tern.h"] + [str(f.relative_to(ROOT)) for f in files]
    words = compiler_words(asked.build)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        taken = pool.map(lambda header: header_seconds(words, header), headers)
        show("headers", dict(zip(headers, taken)), asked.most)
else:
    objects, targets = object_seconds(asked.build), collections.Counter()
    for name, value in objects.items():
        targets[next((p[:-4] for p in name.split("/") if p.endswith(".dir")), "")] += value
    show("targets", targets, asked.most)
    show("objects", objects, asked.most)
