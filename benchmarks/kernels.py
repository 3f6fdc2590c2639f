"""What a step of the lean quadruped and its VJP are made of, as machine code, and what bounds them.

    python benchmarks/kernels.py [--out DIR]    writes DIR/bench/kernels.json (runs), and prints it; a minute

Counts are instructions for one vector of robots, those of a sweep as often as it turns; the few that turn
robots over and that compute atan2 are left out. Cycles are time times the clock, by a chain of additions and
exclusive ors, each of which takes one cycle. Cycles of pieces that are repeated, each on its own, tell what
would be left if code and values were in the first cache; they run on zeros, so take it as a hint. The size of
the code is that of all of it.
"""

import argparse
import ctypes
import json
import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import llvmlite.binding as llvm
from jax.extend import core

import backflip as bf
from backflip import robots
from backflip.experiments.base import revision, write_text
from backflip.experiments.bench.job import DT, SWEEPS
from backflip.experiments.bench.machine import machine
from backflip.lanes import worker
from backflip.lanes.kernel import kernel_ir
from backflip.lanes.machine import _ENGINES as loaded
from backflip.lanes.machine import Module, build, lane_count, load
from backflip.lanes.target import target

ROBOTS, CALLS, SAMPLES = 128, 20, 40
PER_CYCLE = {"multiply": 2, "add": 2, "load": 2, "store": 1, "all": 6}
"""Most that a core of the AMD Zen 3 kind does in a cycle on vectors of 8 floats (Software Optimization Guide
for AMD Family 19h, 56665): two pipes multiply, also fused, and compare, two others add. What bounds another
CPU is told wrongly."""


class Part(NamedTuple):
    """A straight run of instructions that is passed `turns` times."""

    lines: list[str]
    turns: int


def parts(assembly: str, turns: int) -> Iterator[Part]:
    """All pieces of a program; its loops, which jump back, turn so often."""
    for function in re.split(r"^(?=\w+:)", assembly, flags=re.M):
        if not function.startswith("piece"):
            continue
        lines, labels, start = [], {}, 0
        for line in function.splitlines():
            if label := re.match(r"\.L\w+", line):
                labels[label[0]] = len(lines)
            elif re.match(r"\t[a-z]", line):
                lines.append(line.split("#")[0].strip())
                target = lines[-1].split()[-1]
                if lines[-1].startswith("j") and target in labels:
                    yield Part(lines[start : labels[target]], 1)
                    yield Part(lines[labels[target] :], turns)
                    start = len(lines)
        yield Part(lines[start:], 1)


def kinds(line: str) -> Iterator[str]:
    """What an instruction is, and what it does besides."""
    operation = line.split()[0]
    memory, writes = "(" in line, line.endswith(")")
    spilled = re.search(r"\(%r[sb]p", line)
    yield "all"
    if memory and not operation.startswith("lea"):
        yield "store" if writes else "load"
        if spilled:
            yield "spill" if writes else "reload"
    if re.match(r"v(fn?m|mul|cmp|max|min)", operation):
        yield "multiply"
    elif re.match(r"v(add|sub)", operation):
        yield "add"
    elif re.match(r"v(div|sqrt)", operation):
        yield "divide"


def count(modules: list[Module]) -> Counter:
    """Instructions by kind."""
    assert "phi" not in modules[0].text.partition("@run(")[2].partition("\n}")[0], "a sweep was cut"
    counts: Counter = Counter()
    for module in modules:
        text = worker.generator(*target()).emit_assembly(llvm.parse_assembly(module.text))
        for part in parts(text, SWEEPS):
            counts["in sweeps"] += len(part.lines) * part.turns * (part.turns > 1)
            for line in part.lines:
                counts.update(dict.fromkeys(kinds(line), part.turns))
    return counts


class Footprint(NamedTuple):
    """What of a kernel goes through the caches for every vector of robots."""

    code_bytes: int
    frame_bytes: int
    seconds_repeated: float
    """of all pieces, each repeated until it is in the first cache, as far as it has room there"""


def footprint(modules: list[Module]) -> Footprint:
    """Run piece after piece, on zeros."""
    built = build(modules)
    load(built)
    engines, code = loaded[-len(modules) :], 0
    contents, _, rest = built.partition(b"\n")
    for length, _ in json.loads(contents):
        sections = llvm.ObjectFileRef.from_data(rest[:length]).sections()
        code += sum(section.size() for section in sections if section.is_text())
        rest = rest[length:]
    size = int(re.findall(r"%frame = alloca \[(\d+) x i8\]", modules[0].text)[0])
    ports = len(re.findall(r"%port\d+ = ", modules[0].text))
    wide = max(map(int, re.findall(r"= alloca \[(\d+) x <", modules[0].text))) * 4 * lane_count()
    memory = ctypes.create_string_buffer(size + (ports + 1) * (wide + 64) + 64)
    start = -(-ctypes.addressof(memory) // 64) * 64
    places = [start + -(-size // 64) * 64 + (wide + 64) // 64 * 64 * i for i in range(ports)]
    (ctypes.c_uint64 * ports).from_address(start)[:] = places
    repeat = function(REPEAT, "repeat", None, *[ctypes.c_uint64] * 3)
    seconds, i = 0.0, 0
    while address := next(filter(None, (e.get_function_address(f"piece{i}") for e in engines)), 0):
        seconds += best_time(lambda address=address: repeat(address, start, TIMES)) / TIMES
        i += 1
    return Footprint(code, size, seconds)


TIMES = 400
"""how often a piece is repeated"""
REPEAT = """define void @repeat(ptr %piece, ptr %frame, i64 %times) {
entry: br label %loop
loop:
%i = phi i64 [ 0, %entry ], [ %next, %loop ]
call void %piece(ptr %frame)
%next = add i64 %i, 1
%more = icmp ult i64 %next, %times
br i1 %more, label %loop, label %done
done: ret void
}"""


def function(text: str, name: str, *types: Any) -> Callable[..., Any]:
    """A function of LLVM text: its result, then its arguments."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), worker.generator(*target()))
    engine.finalize_object()
    loaded.append(engine)
    return ctypes.CFUNCTYPE(*types)(engine.get_function_address(name))


def calls(jaxpr: Any) -> Iterator[Any]:
    """Equations that call a kernel."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "lanes_call":
            yield eqn
        for inner in core.jaxprs_in_params(eqn.params):
            yield from calls(inner)


def clock() -> float:
    """[Hz] of the core, by operations that wait for each other."""
    chain = "\n".join(f"%x{k + 1} = xor i64 %y{k}, %n\n%y{k + 1} = add i64 %x{k + 1}, %i" for k in range(50))
    text = f"""define i64 @chain(i64 %n) {{
entry: br label %loop
loop:
%i = phi i64 [ 0, %entry ], [ %next, %loop ]
%y0 = phi i64 [ 0, %entry ], [ %y50, %loop ]
{chain}
%next = add i64 %i, 1
%more = icmp ult i64 %next, %n
br i1 %more, label %loop, label %done
done: ret i64 %y50
}}"""
    run = function(text, "chain", ctypes.c_int64, ctypes.c_int64)
    turns = 200_000
    return 100 * turns / best_time(lambda: run(turns))


def best_time(run: Callable[[], Any]) -> float:
    """[s] of the quickest of many runs: what others on the machine leave us at best."""
    seconds = []
    for _ in range(SAMPLES):
        began = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def main(out: Path) -> None:
    """Count, measure, write down."""
    if platform.machine() not in ("x86_64", "AMD64"):
        sys.exit(f"kernels.py reads code of x86-64, and this is {platform.machine()}; run it there")
    os.environ["BACKFLIP_LANES_THREADS"] = "1"
    model = robots.quadruped()
    scheme = bf.Scheme(DT, solver=bf.PGS(sweeps=SWEEPS))
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (ROBOTS, *x.shape)), bf.rest(model))
    u = jnp.zeros((ROBOTS, model.controls))
    step = jax.vmap(lambda state, u: bf.step(scheme, model, state, u))

    def forward(states, u):
        return jax.lax.scan(lambda s, _: (step(s, u), None), states, None, length=CALLS)[0]

    def backward(states, u):
        def pull(ct, _):
            return jax.vjp(lambda s: step(s, u), states)[1](ct)[0], None

        return jax.lax.scan(pull, states, None, length=CALLS)[0]

    hertz = clock()
    figures = {"clock_GHz": hertz / 1e9, "lanes": lane_count(), "per_cycle": PER_CYCLE}
    for name, f in (("forward", forward), ("backward", backward)):
        *_, eqn = calls(jax.make_jaxpr(f)(states, u).jaxpr)
        shared = tuple(not b for b in eqn.params["batched"])
        modules = kernel_ir(eqn.params["program"].closed, shared, True, lane_count(), 1)
        counted, passing = count(modules), footprint(modules)
        program = jax.jit(f)
        jax.block_until_ready(program(states, u))
        seconds = best_time(lambda program=program: program(states, u)) / CALLS / ROBOTS
        bounds = {kind: counted[kind] / most for kind, most in PER_CYCLE.items()}
        cycles = seconds * lane_count() * hertz
        figures[name] = {
            "instructions": dict(counted),
            "code_bytes": passing.code_bytes,
            "frame_bytes": passing.frame_bytes,
            "us_per_robot_step": seconds * 1e6,
            "cycles": cycles,
            "cycles_repeated": passing.seconds_repeated * hertz,
            "instructions_per_cycle": counted["all"] / cycles,
            "least_cycles": max(bounds.values()),
            "bound_by": max(bounds, key=bounds.__getitem__),
        }
    record = {
        "name": "kernels",
        "robot": "quadruped",
        "revision": revision(),
        "machine": machine(),
        **figures,
    }
    write_text(out / "bench" / "kernels.json", json.dumps(record, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="What kernels are made of, and what bounds them.")
    options.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="(%(default)s)")
    main(options.parse_args().out)
