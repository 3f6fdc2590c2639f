"""The door between XLA and a kernel: LLVM IR of an XLA FFI handler that divides robots among threads.

A large batch is cut into chunks, dealt out by an atomic counter to the caller and to helpers from XLA's own
thread pool. The caller never waits for a helper to start: it takes chunks too, until none is left, and then
waits only for those in other hands. So a call ends even if no helper comes, whatever the pool is busy with.
"""

GRAIN = 4  # [vectors] the smallest work that pays for waking one more thread
CHUNKS = 12  # per thread: enough to even out a slow one, few enough that dealing them out costs nothing

# Byte offsets in xla/ffi/api/c_api.h, API major version 0, on any 64-bit platform.
API_MAJOR = 0  # XLA_FFI_API_MAJOR: changes when fields move
FRAME_EXTENSION = 8  # XLA_FFI_CallFrame.extension_start
FRAME_API = 16  # XLA_FFI_CallFrame.api
FRAME_CTX = 24  # XLA_FFI_CallFrame.ctx
FRAME_ARGS = 72  # XLA_FFI_CallFrame.args.args
FRAME_RETS = 112  # XLA_FFI_CallFrame.rets.rets
BUFFER_DATA = 24  # XLA_FFI_Buffer.data
BUFFER_DIMS = 40  # XLA_FFI_Buffer.dims
EXTENSION_TYPE = 8  # XLA_FFI_Extension_Base.type
EXTENSION_METADATA = 24  # XLA_FFI_Metadata_Extension.metadata
METADATA_MAJOR = 24  # XLA_FFI_Metadata.api_version.major_version
METADATA_MINOR = 28  # XLA_FFI_Metadata.api_version.minor_version
API_MINOR = 36  # XLA_FFI_Api.api_version.minor_version
API_ERROR_DESTROY = 64  # XLA_FFI_Api.XLA_FFI_Error_Destroy
API_SCHEDULE = 136  # XLA_FFI_Api.XLA_FFI_ThreadPool_Schedule
API_NUM_THREADS = 144  # XLA_FFI_Api.XLA_FFI_ThreadPool_NumThreads
TYPE_METADATA = 1  # XLA_FFI_Extension_Metadata

# Byte offsets of our own: the job that the threads of one call work on. It lives on the heap because a helper
# may come after the call has ended; whoever leaves last frees it.
JOB_NEXT = 0  # first chunk that nobody has taken
JOB_DONE = 8  # chunks computed
JOB_USERS = 16  # visits still to end: the helpers', and the caller's two, to compute and to wait
JOB_COUNT = 24  # robots in the batch
JOB_CHUNK = 32  # robots in a chunk
JOB_CHUNKS = 40  # chunks in the batch
JOB_POINTERS = 48  # data of all arguments, then of all results

LIBRARY = "\ndeclare ptr @malloc(i64)\ndeclare void @free(ptr)\ndeclare i32 @sched_yield()\n"


def handler_ir(
    name: str,
    block: str,
    inputs: int,
    outputs: int,
    batched: bool,
    lanes: int,
    *,
    threads: int | None = None,
    group: int = 1,
) -> str:
    """IR text of the handler `name`, which has `block` compute all robots of a call.

    The module it joins defines `void @{block}(ptr ins, ptr outs, i64 first, i64 last)` and declares none of
    malloc, free and sched_yield. The compiled code is never to be freed: a late helper may enter it after the
    last call. threads: at most so many work on one call, the caller included; None: as many as the pool has.
    """
    if min(outputs, lanes, 1 if threads is None else threads) < 1:
        raise ValueError(f'handler "{name}": outputs, lanes and threads must be 1 or more')
    parts = [_handler(name), _execute(name, block, inputs, outputs, batched), _collect(name, inputs, outputs)]
    parts += [_divide(name, inputs + outputs, lanes, group), _crew(name, lanes, threads), _invite(name)]
    return "\n".join([*parts, _help(name, block, inputs), _release(name), _ask(name), LIBRARY])


def _at(result: str, base: str, offset: int) -> str:
    return f"  {result} = getelementptr i8, ptr {base}, i64 {offset}"


def _load(result: str, kind: str, base: str, offset: int) -> str:
    return f"{_at(f'{result}.at', base, offset)}\n  {result} = load {kind}, ptr {result}.at"


def _store(value: str, base: str, offset: int) -> str:
    return f"{_at(f'{base}.{offset}', base, offset)}\n  store {value}, ptr {base}.{offset}"


def _words(base: str, *values: str) -> str:
    """Fill a C struct whose fields are all 8 bytes wide."""
    return "\n".join(_store(value, base, 8 * i) for i, value in enumerate(values))


def _min(result: str, a: str, b: str) -> str:
    return f"  {result}.is = icmp slt i64 {a}, {b}\n  {result} = select i1 {result}.is, i64 {a}, i64 {b}"


def _max(result: str, a: str, b: str) -> str:
    return f"  {result}.is = icmp sgt i64 {a}, {b}\n  {result} = select i1 {result}.is, i64 {a}, i64 {b}"


def _ceil(result: str, value: str, step: str) -> str:
    """⌈value / step⌉ of positive numbers."""
    down = f"  {result}.less = sub i64 {value}, 1\n  {result}.down = udiv i64 {result}.less, {step}"
    return f"{down}\n  {result} = add i64 {result}.down, 1"


def _handler(name: str) -> str:
    """What XLA calls: at registration to ask for the version, later to execute."""
    # our own major version, so that XLA refuses us if its fields have moved; minor ones only add fields
    return f"""
define ptr @{name}(ptr %frame) {{
entry:
{_load("%extension", "ptr", "%frame", FRAME_EXTENSION)}
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %execute, label %extended
extended:
{_load("%type", "i32", "%extension", EXTENSION_TYPE)}
  %asks = icmp eq i32 %type, {TYPE_METADATA}
  br i1 %asks, label %answer, label %execute
answer:
{_load("%api", "ptr", "%frame", FRAME_API)}
{_load("%minor", "i32", "%api", API_MINOR)}
{_load("%metadata", "ptr", "%extension", EXTENSION_METADATA)}
{_store(f"i32 {API_MAJOR}", "%metadata", METADATA_MAJOR)}
{_store("i32 %minor", "%metadata", METADATA_MINOR)}
  ret ptr null
execute: ; registered as one function, a handler is called for no other stage
  call void @{name}.execute(ptr %frame)
  ret ptr null
}}"""


def _execute(name: str, block: str, inputs: int, outputs: int, batched: bool) -> str:
    """Count the robots, then divide them or compute all here."""
    dims = f"""{_load("%rets", "ptr", "%frame", FRAME_RETS)}
{_load("%result", "ptr", "%rets", 0)}
{_load("%dims", "ptr", "%result", BUFFER_DIMS)}"""
    return f"""
define internal void @{name}.execute(ptr %frame) {{
entry:
  %ins = alloca [{inputs + outputs} x ptr]
{dims if batched else ""}
  %count = {"load i64, ptr %dims" if batched else "add i64 1, 0"}
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %end, label %divide
divide:
  %divided = call i1 @{name}.divide(ptr %frame, i64 %count)
  br i1 %divided, label %end, label %single
single:
{_at("%outs", "%ins", 8 * inputs)}
  call void @{name}.collect(ptr %frame, ptr %ins)
  call void @{block}(ptr %ins, ptr %outs, i64 0, i64 %count)
  br label %end
end: ret void
}}"""


def _collect(name: str, inputs: int, outputs: int) -> str:
    """Write down the data pointers of all arguments, then of all results."""
    buffers = [("%args", i) for i in range(inputs)] + [("%rets", i) for i in range(outputs)]
    loads = [
        f"{_load(f'%buffer{k}', 'ptr', of, 8 * i)}\n{_load(f'%data{k}', 'ptr', f'%buffer{k}', BUFFER_DATA)}"
        for k, (of, i) in enumerate(buffers)
    ]
    return f"""
define internal void @{name}.collect(ptr %frame, ptr %pointers) {{
{_load("%args", "ptr", "%frame", FRAME_ARGS)}
{_load("%rets", "ptr", "%frame", FRAME_RETS)}
{chr(10).join(loads)}
{_words("%pointers", *(f"ptr %data{k}" for k in range(len(buffers))))}
  ret void
}}"""


def _divide(name: str, pointers: int, lanes: int, group: int) -> str:
    """Compute chunks of whole vectors together with helpers; false: nothing done, one thread will do."""
    return f"""
define internal i1 @{name}.divide(ptr %frame, i64 %count) {{
entry:
  %crew = call i64 @{name}.crew(ptr %frame, i64 %count)
  %several = icmp sgt i64 %crew, 1
  br i1 %several, label %allocate, label %decline
allocate:
  %job = call ptr @malloc(i64 {JOB_POINTERS + 8 * pointers})
  %none = icmp eq ptr %job, null
  br i1 %none, label %decline, label %cut
decline: ret i1 false
cut:
{_ceil("%vectors", "%count", f"{lanes}")}
  %wanted = mul i64 %crew, {CHUNKS}
{_ceil("%few", "%vectors", "%wanted")}
{_ceil("%most", "%vectors", "%crew")}
{_min("%least", "%most", f"{group}")}
{_max("%each", "%few", "%least")}
{_ceil("%chunks", "%vectors", "%each")}
  %chunk = mul i64 %each, {lanes}
  %users = add i64 %crew, 1
{_words("%job", "i64 0", "i64 0", "i64 %users", "i64 %count", "i64 %chunk", "i64 %chunks")}
{_at("%pointers", "%job", JOB_POINTERS)}
  call void @{name}.collect(ptr %frame, ptr %pointers)
  call void @{name}.invite(ptr %frame, ptr %job, i64 %crew)
  call void @{name}.help(ptr %job)
{_at("%done", "%job", JOB_DONE)}
  br label %wait
wait: ; all chunks are taken, so those not done are being computed
  %ready = load atomic i64, ptr %done acquire, align 8
  %all = icmp eq i64 %ready, %chunks
  br i1 %all, label %end, label %yield
yield:
  call i32 @sched_yield()
  br label %wait
end:
  call void @{name}.release(ptr %job)
  ret i1 true
}}"""


def _crew(name: str, lanes: int, threads: int | None) -> str:
    """How many threads, the caller included, these robots are worth; 1 if XLA has no pool."""
    return f"""
define internal i64 @{name}.crew(ptr %frame, i64 %count) {{
  %args = alloca [4 x i64] ; XLA_FFI_ThreadPool_NumThreads_Args
  %out = alloca i64
  store i64 1, ptr %out
{_load("%api", "ptr", "%frame", FRAME_API)}
{_load("%ctx", "ptr", "%frame", FRAME_CTX)}
{_load("%count.threads", "ptr", "%api", API_NUM_THREADS)}
{_words("%args", "i64 32", "ptr null", "ptr %ctx", "ptr %out")}
  call i1 @{name}.ask(ptr %api, ptr %count.threads, ptr %args)
  %pool = load i64, ptr %out
{_ceil("%grains", "%count", f"{GRAIN * lanes}")}
{_min("%worth", "%pool", "%grains")}
{_min("%crew", "%worth", "%worth" if threads is None else f"{threads}")}
  ret i64 %crew
}}"""


def _invite(name: str) -> str:
    """Ask the pool for helpers, one less than the crew; the caller stands in for those it refuses."""
    return f"""
define internal void @{name}.invite(ptr %frame, ptr %job, i64 %crew) {{
entry:
  %args = alloca [5 x i64] ; XLA_FFI_ThreadPool_Schedule_Args
{_load("%api", "ptr", "%frame", FRAME_API)}
{_load("%ctx", "ptr", "%frame", FRAME_CTX)}
{_load("%schedule", "ptr", "%api", API_SCHEDULE)}
{_words("%args", "i64 40", "ptr null", "ptr %ctx", f"ptr @{name}.help", "ptr %job")}
  br label %invite
invite:
  %crew.now = phi i64 [1, %entry], [%crew.next, %invited]
  %accepted = call i1 @{name}.ask(ptr %api, ptr %schedule, ptr %args)
  br i1 %accepted, label %invited, label %refused
refused:
  call void @{name}.help(ptr %job)
  br label %invited
invited:
  %crew.next = add i64 %crew.now, 1
  %more = icmp slt i64 %crew.next, %crew
  br i1 %more, label %invite, label %end
end: ret void
}}"""


def _help(name: str, block: str, inputs: int) -> str:
    """Compute chunks until none is left, and leave."""
    # the counter only deals out numbers, so it needs no order; `done` hands over the results
    return f"""
define internal void @{name}.help(ptr %job) {{
entry:
{_load("%count", "i64", "%job", JOB_COUNT)}
{_load("%chunk", "i64", "%job", JOB_CHUNK)}
{_load("%chunks", "i64", "%job", JOB_CHUNKS)}
{_at("%next", "%job", JOB_NEXT)}
{_at("%done", "%job", JOB_DONE)}
{_at("%ins", "%job", JOB_POINTERS)}
{_at("%outs", "%ins", 8 * inputs)}
  br label %take
take:
  %mine = atomicrmw add ptr %next, i64 1 monotonic, align 8
  %left = icmp slt i64 %mine, %chunks
  br i1 %left, label %compute, label %end
compute:
  %first = mul i64 %mine, %chunk
  %whole = add i64 %first, %chunk
{_min("%last", "%whole", "%count")}
  call void @{block}(ptr %ins, ptr %outs, i64 %first, i64 %last)
  atomicrmw add ptr %done, i64 1 release, align 8
  br label %take
end:
  call void @{name}.release(ptr %job)
  ret void
}}"""


def _release(name: str) -> str:
    """Leave; the last one out frees the job."""
    return f"""
define internal void @{name}.release(ptr %job) {{
{_at("%users", "%job", JOB_USERS)}
  %before = atomicrmw sub ptr %users, i64 1 acq_rel, align 8
  %last = icmp eq i64 %before, 1
  %waste = select i1 %last, ptr %job, ptr null ; which `free` ignores
  call void @free(ptr %waste)
  ret void
}}"""


def _ask(name: str) -> str:
    """Call a function of the API; false: it gave an error, destroyed here, as is the receiver's duty."""
    return f"""
define internal i1 @{name}.ask(ptr %api, ptr %function, ptr %args) {{
entry:
  %receipt = alloca [3 x i64] ; XLA_FFI_Error_Destroy_Args
  %error = call ptr %function(ptr %args)
  %well = icmp eq ptr %error, null
  br i1 %well, label %end, label %destroy
destroy:
{_load("%destructor", "ptr", "%api", API_ERROR_DESTROY)}
{_words("%receipt", "i64 24", "ptr null", "ptr %error")}
  call void %destructor(ptr %receipt)
  br label %end
end: ret i1 %well
}}"""
