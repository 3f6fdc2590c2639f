"""A handler computes every robot exactly once, whoever helps, and leaves nothing behind."""

import ctypes
import re
import threading
import time
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import llvmlite.binding as llvm
import numpy as np
import pytest

from backflip.lanes import handler
from backflip.lanes.handler import handler_ir

LANES = 8
COUNTS = (0, 1, 7, 8, 9, 1000, 100003)
PATIENCE = 60  # [s] far beyond any call: past it, a test calls it a deadlock
ENGINES = []
"""Compiled code: it must outlive every call."""


# --- a toy kernel -----------------------------------------------------------------------------------------


def toy_block(inputs: int, outputs: int, turns: int = 20) -> str:
    """Result k of a robot is (k + 2) Σ inputs, then worked on for some turns; the last one is `first`."""
    sums = "\n".join(
        f"""  %in{k}.at = getelementptr ptr, ptr %ins, i64 {k}
  %in{k} = load ptr, ptr %in{k}.at
  %x{k}.at = getelementptr double, ptr %in{k}, i64 %i
  %x{k} = load double, ptr %x{k}.at
  %sum{k + 1} = fadd double %sum{k}, %x{k}"""
        for k in range(inputs)
    )
    stores = "\n".join(
        f"""  %out{k}.at = getelementptr ptr, ptr %outs, i64 {k}
  %out{k} = load ptr, ptr %out{k}.at
  %y{k}.at = getelementptr double, ptr %out{k}, i64 %i
  %y{k} = fmul double %b, {k + 2}.0
  store {"i64 %first" if k == outputs - 1 else f"double %y{k}"}, ptr %y{k}.at"""
        for k in range(outputs)
    )
    return f"""
define internal void @block(ptr %ins, ptr %outs, i64 %first, i64 %last) {{
entry:
  br label %robot
robot:
  %i = phi i64 [%first, %entry], [%i.next, %store]
  %sum0 = fadd double 0.0, 0.0
{sums}
  br label %turn
turn:
  %t = phi i64 [0, %robot], [%t.next, %turn]
  %a = phi double [%sum{inputs}, %robot], [%b, %turn]
  %half = fmul double %a, 0.5
  %b = fadd double %half, %sum{inputs}
  %t.next = add i64 %t, 1
  %again = icmp slt i64 %t.next, {turns}
  br i1 %again, label %turn, label %store
store:
{stores}
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %last
  br i1 %more, label %robot, label %end
end:
  ret void
}}"""


def toy_result(*xs: np.ndarray, outputs: int, turns: int = 20) -> list[np.ndarray]:
    """What the block computes, `first` left out."""
    total = b = sum(xs)
    for _ in range(turns):
        b = 0.5 * b + total
    return [(k + 2) * b for k in range(outputs - 1)]


COUNTING = """
@made = global i64 0
@freed = global i64 0
declare ptr @malloc(i64)
declare void @free(ptr)
define internal ptr @counted.malloc(i64 %size) {
  atomicrmw add ptr @made, i64 1 monotonic, align 8
  %new = call ptr @malloc(i64 %size)
  ret ptr %new
}
define internal void @counted.free(ptr %old) {
  %real = icmp ne ptr %old, null
  %one = zext i1 %real to i64
  atomicrmw add ptr @freed, i64 %one monotonic, align 8
  call void @free(ptr %old)
  ret void
}"""


def block_calling(function) -> str:
    """A block that leaves its work to Python: function(first, last)."""
    return f"""
define internal void @block(ptr %ins, ptr %outs, i64 %first, i64 %last) {{
  %function = inttoptr i64 {address(function)} to ptr
  call void %function(i64 %first, i64 %last)
  ret void
}}"""


class Toy:
    """The toy kernel behind its handler, which counts what it allocates and frees."""

    def __init__(self, inputs=1, outputs=2, batched=True, threads=None, turns=20, block=None):
        self.name = f"toy_{len(ENGINES)}"  # XLA takes a name once
        self.outputs = outputs
        door = handler_ir(self.name, "block", inputs, outputs, batched, LANES, threads=threads)
        door = re.sub(r"declare .* @(malloc|free)\(.*", "", door)
        door = re.sub(r"@(malloc|free)\(", r"@counted.\1(", door)
        self.engine = compiled((block or toy_block(inputs, outputs, turns)) + COUNTING + door)
        self.address = self.engine.get_function_address(self.name)
        capsule = jax.ffi.pycapsule(ctypes.CFUNCTYPE(ctypes.c_void_p)(self.address))
        jax.ffi.register_ffi_target(self.name, capsule, platform="cpu")

    def __call__(self, *xs):
        kinds = [jnp.float64] * (self.outputs - 1) + [jnp.int64]
        shapes = [jax.ShapeDtypeStruct(xs[0].shape, kind) for kind in kinds]
        return jax.ffi.ffi_call(self.name, shapes)(*xs)

    def tally(self) -> tuple[int, int]:
        """Blocks of memory made, and of these still there."""
        made, freed = (
            ctypes.c_int64.from_address(self.engine.get_global_value_address(name)).value
            for name in ("made", "freed")
        )
        return made, made - freed


def compiled(text: str) -> llvm.ExecutionEngine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    ENGINES.append(engine)
    return engine


toy = cache(Toy)


def numbers(*shape: int) -> np.ndarray:
    """Numbers of all sizes; those that threads might round to zero, or not, included."""
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape) * 10.0 ** rng.integers(-323, 300, shape)


def eventually(holds) -> bool:
    """Whether something comes true before patience ends."""
    end = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


# --- XLA's side of the door, rebuilt from its header --------------------------------------------------------


@cache
def structs() -> dict[str, type]:
    """All C structs of the installed XLA's header."""
    text = re.sub(r"//.*", "", Path(jax.ffi.include_dir(), "xla/ffi/api/c_api.h").read_text("utf-8"))
    text = re.sub(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\);", r"void* \1;", text)
    kinds: dict[str, type] = {"size_t": ctypes.c_int64, "int64_t": ctypes.c_int64}
    for name, body in re.findall(r"struct (\w+) \{(.*?)\n\}", text, re.DOTALL):
        fields = [re.search(r"(\w+).*?(\w+)\)?(?:\(.*\))?$", field.strip()) for field in body.split(";")[:-1]]
        # a type not met before is an enum
        members = [
            (f[2], ctypes.c_void_p if "*" in f[0] else kinds.get(f[1], ctypes.c_int32)) for f in fields
        ]
        kinds[name] = type(name, (ctypes.Structure,), {"_fields_": members})
    return kinds


def struct(name: str, **fields):
    return structs()[f"XLA_FFI_{name}"](**fields)


def address(thing) -> int:
    return ctypes.cast(thing if callable(thing) else ctypes.pointer(thing), ctypes.c_void_p).value


API_CALL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
ERROR = 0xE440


class FakeXla:
    """An XLA whose pool keeps its tasks until told to run them."""

    def __init__(self, threads: int | None = 4, refuses: bool = False, at_once: bool = False):
        self.threads, self.refuses = threads, refuses
        self.scheduled = self.run if at_once else lambda: None
        self.tasks, self.destroyed = [], []
        self.functions = [API_CALL(f) for f in (self.num_threads, self.schedule, self.destroy)]
        names = ("ThreadPool_NumThreads", "ThreadPool_Schedule", "Error_Destroy")
        table = {f"XLA_FFI_{n}": address(f) for n, f in zip(names, self.functions, strict=True)}
        self.api = struct("Api", api_version=struct("Api_Version", major_version=0, minor_version=7), **table)

    def num_threads(self, at):
        args = structs()["XLA_FFI_ThreadPool_NumThreads_Args"].from_address(at)
        assert args.struct_size == ctypes.sizeof(args)
        if self.threads is None:
            return ERROR
        ctypes.c_int64.from_address(args.num_threads).value = self.threads

    def schedule(self, at):
        args = structs()["XLA_FFI_ThreadPool_Schedule_Args"].from_address(at)
        assert args.struct_size == ctypes.sizeof(args)
        if self.refuses:
            return ERROR
        self.tasks.append((TASK(args.task), args.data))
        self.scheduled()

    def destroy(self, at):
        args = structs()["XLA_FFI_Error_Destroy_Args"].from_address(at)
        assert args.struct_size == ctypes.sizeof(args)
        self.destroyed.append(args.error)

    def run(self) -> None:
        while self.tasks:
            task, data = self.tasks.pop()
            task(data)

    def call(self, kernel: Toy, *xs: np.ndarray) -> list[np.ndarray]:
        kinds = [np.float64] * (kernel.outputs - 1) + [np.int64]
        results = [np.full(xs[0].shape, -1, kind) for kind in kinds]
        shape = (ctypes.c_int64 * 1)(len(xs[0]))
        buffers = [struct("Buffer", data=x.ctypes.data, rank=1, dims=address(shape)) for x in (*xs, *results)]
        lists = [
            (ctypes.c_void_p * len(b))(*map(address, b)) for b in (buffers[: len(xs)], buffers[len(xs) :])
        ]
        args, rets = struct("Args", args=address(lists[0])), struct("Rets", rets=address(lists[1]))
        self.enter(kernel, struct("CallFrame", api=address(self.api), stage=3, args=args, rets=rets))
        return results

    def enter(self, kernel: Toy, frame) -> None:
        assert API_CALL(kernel.address)(address(frame)) is None


# --- what the door is made of -------------------------------------------------------------------------------


def test_every_offset_is_that_of_the_field_it_names():
    named = re.findall(
        r"^\w+ = (\d+)  # (XLA_FFI_\w+)\.([\w.]+)$", Path(handler.__file__).read_text("utf-8"), re.M
    )
    assert len(named) > 10
    for number, name, path in named:
        at, kind = 0, structs()[name]
        for field in path.split("."):
            at, kind = at + getattr(kind, field).offset, dict(kind._fields_)[field]
        assert at == int(number), f"{name}.{path}"


def test_version_is_our_major_and_the_minor_of_xla():
    metadata = struct("Metadata", api_version=struct("Api_Version", major_version=5, minor_version=5))
    base = struct("Extension_Base", type=handler.TYPE_METADATA)
    extension = struct("Metadata_Extension", extension_base=base, metadata=address(metadata))
    xla = FakeXla()
    xla.enter(toy(), struct("CallFrame", extension_start=address(extension), api=address(xla.api)))
    assert (metadata.api_version.major_version, metadata.api_version.minor_version) == (0, 7)


def test_nonsense_is_refused_by_name():
    with pytest.raises(ValueError, match="toy"):
        handler_ir("toy", "block", 1, 1, True, LANES, threads=0)


# --- results ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, None])
@pytest.mark.parametrize("count", COUNTS)
def test_every_robot_is_computed(count, threads):
    x = np.linspace(-1, 1, count)
    y, first = jax.jit(toy(threads=threads))(x)
    np.testing.assert_allclose(y, toy_result(x, outputs=2)[0], rtol=1e-12)
    assert (np.asarray(first) % LANES == 0).all()


def test_lone_robot_has_no_batch_axis():
    y, first = jax.jit(toy(batched=False))(jnp.array(3.0))
    np.testing.assert_allclose(y, toy_result(3.0, outputs=2)[0], rtol=1e-12)
    assert first == 0


@pytest.mark.parametrize("count", [1, 1000])
def test_several_arguments_and_results(count):
    xs = np.random.default_rng(0).standard_normal((3, count))
    *ys, _ = jax.jit(toy(inputs=3, outputs=5))(*xs)
    for y, wanted in zip(ys, toy_result(*xs, outputs=5), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-9)


@pytest.mark.parametrize("count", COUNTS)
def test_threads_do_not_change_a_bit(count):
    x = numbers(count)
    alone, shared = (np.asarray(jax.jit(toy(threads=threads))(x)[0]) for threads in (1, None))
    np.testing.assert_array_equal(alone.view(np.int64), shared.view(np.int64))


@pytest.mark.parametrize("count", [9, 1000])
def test_scan_steps_many_times(count):
    def roll(kernel):
        return jax.jit(
            lambda x: jax.lax.scan(lambda c, _: (1e-2 * kernel(c)[0], None), x, None, length=300)[0]
        )

    x = np.linspace(-1, 1, count)
    alone, shared = (np.asarray(roll(toy(threads=threads))(x)) for threads in (1, None))
    np.testing.assert_array_equal(alone, shared)


# --- who helps ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [40, 1000, 1001, 5000])
@pytest.mark.parametrize("threads", [2, 5, 64])
def test_chunks_are_whole_vectors_a_few_per_thread(count, threads):
    first = FakeXla(threads, at_once=True).call(toy(), np.ones(count))[1]
    starts, sizes = np.unique(first, return_counts=True)
    assert (starts % LANES == 0).all() and (sizes[:-1] == sizes[0]).all()
    assert len(starts) <= threads * handler.CHUNKS
    np.testing.assert_array_equal(starts, sizes[0] * np.arange(len(starts)))


def test_call_ends_though_no_helper_comes_and_the_last_late_one_frees():
    kernel, xla, x = Toy(), FakeXla(threads=4), np.linspace(-1, 1, 1000)
    y = xla.call(kernel, x)[0]
    np.testing.assert_allclose(y, toy_result(x, outputs=2)[0], rtol=1e-12)
    assert len(xla.tasks) == 3 and kernel.tally() == (1, 1)
    y[:] = 7
    xla.run()
    assert (y == 7).all() and kernel.tally() == (1, 0)


@pytest.mark.parametrize("refuses", [False, True], ids=["comes at once", "is refused"])
def test_call_frees_all_when_help(refuses):
    kernel, xla, x = Toy(), FakeXla(refuses=refuses, at_once=True), np.linspace(-1, 1, 1000)
    y = xla.call(kernel, x)[0]
    np.testing.assert_allclose(y, toy_result(x, outputs=2)[0], rtol=1e-12)
    assert kernel.tally() == (1, 0) and xla.destroyed == [ERROR] * 3 * refuses


@pytest.mark.parametrize(
    "threads, limit, count",
    [(None, None, 1000), (1, None, 1000), (4, 1, 1000), (4, None, handler.GRAIN * LANES)],
    ids=["no pool", "pool of one", "limit of one", "small batch"],
)
def test_one_thread_will_do(threads, limit, count):
    kernel, xla, x = toy(threads=limit), FakeXla(threads), np.linspace(-1, 1, count)
    before = kernel.tally()
    y, first = xla.call(kernel, x)
    np.testing.assert_allclose(y, toy_result(x, outputs=2)[0], rtol=1e-12)
    assert (first == 0).all() and not xla.tasks and kernel.tally() == before
    assert xla.destroyed == ([ERROR] if threads is None else [])


def test_call_waits_for_a_chunk_that_a_helper_has_begun():
    begun, allowed, computed = threading.Event(), threading.Event(), []

    def block(first, last):
        if threading.current_thread() is helper:
            begun.set()
            allowed.wait(PATIENCE)
        else:
            begun.wait(PATIENCE)
        computed.extend(range(first, last))

    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(block)
    kernel, xla = Toy(block=block_calling(function)), FakeXla(threads=2)
    helper = threading.Thread(target=xla.run, daemon=True)
    xla.scheduled = helper.start
    caller = threading.Thread(target=xla.call, args=(kernel, np.ones(1000)), daemon=True)
    caller.start()
    assert eventually(lambda: len(computed) > 800)  # all but one of eight chunks
    caller.join(0.1)
    assert caller.is_alive()
    allowed.set()
    caller.join(PATIENCE)
    assert not caller.is_alive() and sorted(computed) == list(range(1000))
    assert eventually(lambda: kernel.tally() == (1, 0))


def test_threads_limit_the_helpers():
    xla = FakeXla(threads=16)
    xla.call(toy(threads=3), np.ones(100003))
    assert len(xla.tasks) == 2
    xla.run()


# --- many at once -------------------------------------------------------------------------------------------


def test_callers_side_by_side_never_wait_for_each_other():
    kernel = toy()
    both = jax.jit(lambda x, z: (kernel(x)[0], kernel(z)[0]))
    x, z = np.linspace(-1, 1, 3000), np.linspace(2, 3, 5000)
    wanted = [toy_result(v, outputs=2)[0] for v in (x, z)]
    wrong, ended = [], []

    def caller():
        for _ in range(200):
            wrong.extend(not np.allclose(a, b) for a, b in zip(both(x, z), wanted, strict=True))
        ended.append(True)

    callers = [threading.Thread(target=caller, daemon=True) for _ in range(6)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(PATIENCE)
    assert len(ended) == len(callers), "deadlock"
    assert not any(wrong)


def test_thousands_of_calls_leave_nothing_behind():
    kernel = Toy(turns=2)
    roll = jax.jit(lambda x: jax.lax.scan(lambda c, _: (0.2 * kernel(c)[0], None), x, None, length=1000)[0])
    for _ in range(5):
        roll(np.ones(200)).block_until_ready()
    assert eventually(lambda: kernel.tally()[1] == 0)  # late helpers first have to leave
    assert kernel.tally()[0] in (0, 5000)  # none at all where the pool has one thread
