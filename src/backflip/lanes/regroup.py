"""A while loop of many robots: those that want more turns than most are gathered into full vectors.

A vector turns until the slowest of its robots is done, and the slowest of 16 needs several times as long as
most. Here it turns until few want more. Those queue; as soon as they fill a vector of the slow, all of them
are copied there, element by element, and turn until few of these want more. All go home then, and whoever is
not done queues again. What a turn reads and writes of a robot is all that moves.
"""

from backflip.lanes.emit import Regrouped

FEW = 0.375
"""of the lanes: the rest of a vector turns no longer for so few, they queue"""


def regroup_ir(
    index: int, loop: Regrouped, areas: dict[str, tuple[int, int]], wanting: int, slot: int, lanes: int,
    frame: int,
) -> str:  # fmt: skip
    """@regroup{index}(ptr frames, ptr slow, i64 count): all turns of a loop, for `count` vectors.

    Frames are `frame` bytes apart, and begin with their ports; `slow` is one more. `areas` says where in a
    frame an area is, and its elements. `wanting` is where the test says which lanes want a turn, and `slot`
    the number of that port.
    """
    few = int(FEW * lanes)
    return "\n".join([
        _move("gather", index, {**loop.fixed, **loop.carried}, areas),
        _move("scatter", index, loop.carried, areas),
        _turns(index, wanting),
        _settle(index, lanes),
        _regroup(index, wanting, slot, lanes, few, frame),
    ])  # fmt: skip


def move_area_ir(way: str, size: int, lanes: int) -> str:
    """@gather.{size} or @scatter.{size}: `count` elements, of `size` bytes, of an area `at` in a frame.

    From the lanes that queue to those of the slow, or back.
    """
    kind, step = f"i{8 * size}", lanes * size
    pointers, moves = [], []
    for j in range(lanes):
        pointers += [
            f"%place{j} = getelementptr {_queue(lanes)}, ptr %queue, i64 0, i64 {j}",
            f"%who{j} = load {{ptr, i64}}, ptr %place{j}",
            f"%frame{j} = extractvalue {{ptr, i64}} %who{j}, 0",
            f"%lane{j} = extractvalue {{ptr, i64}} %who{j}, 1",
            f"%lane{j}.bytes = mul i64 %lane{j}, {size}", f"%lane{j}.at = add i64 %lane{j}.bytes, %at",
            f"%robot{j} = getelementptr i8, ptr %frame{j}, i64 %lane{j}.at",
        ]  # fmt: skip
        own = [f"%own{j} = getelementptr i8, ptr %robot{j}, i64 %skip"]
        own.append(f"%here{j} = getelementptr {kind}, ptr %here, i64 {j}")
        source, target = ("own", "here") if way == "gather" else ("here", "own")
        moves += [*own, f"%x{j} = load {kind}, ptr %{source}{j}", f"store {kind} %x{j}, ptr %{target}{j}"]
    return _function(f"void @{way}.{size}(ptr %slow, ptr %queue, i64 %at, i64 %count)", [
        *pointers, "%area = getelementptr i8, ptr %slow, i64 %at", "br label %next",
        "next:", "%k = phi i64 [ 0, %entry ], [ %k.next, %next ]", f"%skip = mul i64 %k, {step}",
        "%here = getelementptr i8, ptr %area, i64 %skip", *moves,
        "%k.next = add i64 %k, 1", "%more = icmp ult i64 %k.next, %count",
        "br i1 %more, label %next, label %done", "done:", "ret void",
    ])  # fmt: skip


def _queue(lanes: int) -> str:
    """Frames and lanes of those that wait."""
    return f"[{lanes} x {{ptr, i64}}]"


def _function(head: str, lines: list[str]) -> str:
    text = "\n  ".join(lines)
    return f"define internal {head} nounwind {{\nentry:\n  {text}\n}}"


def _move(way: str, index: int, sizes: dict[str, int], areas: dict[str, tuple[int, int]]) -> str:
    """All areas of a loop that are in the frame."""
    calls = [
        f"call void @{way}.{size}(ptr %slow, ptr %queue, i64 {areas[name][0]}, i64 {areas[name][1]})"
        for name, size in sizes.items()
        if name in areas
    ]
    return _function(f"void @{way}{index}(ptr %slow, ptr %queue)", [*calls, "ret void"])


def _turns(index: int, wanting: int) -> str:
    """Turns of a vector until at most `few` of its lanes want more; which, a bit each."""
    test, body = 3 * index + 1, 3 * index + 2
    return f"""define internal i64 @turns{index}(ptr %frame, i64 %few) nounwind {{
entry:
  br label %test
test:
  call void @stage{test}(ptr %frame)
  %at = getelementptr i8, ptr %frame, i64 {wanting}
  %wanting = load i64, ptr %at
  %count = call i64 @llvm.ctpop.i64(i64 %wanting)
  %many = icmp ugt i64 %count, %few
  br i1 %many, label %body, label %done
body:
  call void @stage{body}(ptr %frame)
  br label %test
done:
  ret i64 %wanting
}}"""


def _settle(index: int, lanes: int) -> str:
    """Turns of those that queue, and home again; how many are not done, and stay in the queue."""
    queue = _queue(lanes)
    return f"""define internal i64 @settle{index}(ptr %slow, ptr %queue, i64 %count, i64 %few) nounwind {{
entry:
  call void @gather{index}(ptr %slow, ptr %queue)
  %wanting = call i64 @turns{index}(ptr %slow, i64 %few)
  call void @scatter{index}(ptr %slow, ptr %queue)
  br label %look
look:
  %lane = phi i64 [ 0, %entry ], [ %lane.next, %look ]
  %left = phi i64 [ 0, %entry ], [ %left.next, %look ]
  %from = getelementptr {queue}, ptr %queue, i64 0, i64 %lane
  %who = load {{ptr, i64}}, ptr %from
  %to = getelementptr {queue}, ptr %queue, i64 0, i64 %left
  store {{ptr, i64}} %who, ptr %to
  %bit = lshr i64 %wanting, %lane
  %wants = and i64 %bit, 1
  %left.next = add i64 %left, %wants
  %lane.next = add i64 %lane, 1
  %go = icmp ult i64 %lane.next, %count
  br i1 %go, label %look, label %done
done:
  ret i64 %left.next
}}"""


def _regroup(index: int, wanting: int, slot: int, lanes: int, few: int, frame: int) -> str:
    """All vectors, and the slow of each; a single one has nobody to wait for."""
    queue = _queue(lanes)
    return f"""define internal void @regroup{index}(ptr %frames, ptr %slow, i64 %count) nounwind {{
entry:
  %queue = alloca {queue}
  call void @llvm.memcpy.p0.p0.i64(ptr %slow, ptr %frames, i64 {8 * slot}, i1 false)
  %tell = getelementptr i8, ptr %slow, i64 {wanting}
  %port = getelementptr i8, ptr %slow, i64 {8 * slot}
  store ptr %tell, ptr %port
  %one = icmp eq i64 %count, 1
  %few = select i1 %one, i64 0, i64 {few}
  br label %vector
vector:
  %i = phi i64 [ 0, %entry ], [ %i.next, %vector.next ]
  %waiting = phi i64 [ 0, %entry ], [ %waiting.now, %vector.next ]
  %skip = mul i64 %i, {frame}
  %frame = getelementptr i8, ptr %frames, i64 %skip
  %wanting = call i64 @turns{index}(ptr %frame, i64 %few)
  br label %look
look:
  %left = phi i64 [ %wanting, %vector ], [ %left.next, %queued ]
  %waiting.now = phi i64 [ %waiting, %vector ], [ %waiting.next, %queued ]
  %none = icmp eq i64 %left, 0
  br i1 %none, label %vector.next, label %enqueue
enqueue:
  %lane = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %less = sub i64 %left, 1
  %left.next = and i64 %left, %less
  %at = getelementptr {queue}, ptr %queue, i64 0, i64 %waiting.now
  %who.frame = insertvalue {{ptr, i64}} poison, ptr %frame, 0
  %who = insertvalue {{ptr, i64}} %who.frame, i64 %lane, 1
  store {{ptr, i64}} %who, ptr %at
  %with = add i64 %waiting.now, 1
  %full = icmp eq i64 %with, {lanes}
  br i1 %full, label %turn, label %queued
turn:
  %remaining = call i64 @settle{index}(ptr %slow, ptr %queue, i64 {lanes}, i64 {few})
  br label %queued
queued:
  %waiting.next = phi i64 [ %with, %enqueue ], [ %remaining, %turn ]
  br label %look
vector.next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %vector, label %last
last:
  %nobody = icmp eq i64 %waiting.now, 0
  br i1 %nobody, label %done, label %spare
spare: ; lanes to spare repeat the first, and write the same home
  %first = load {{ptr, i64}}, ptr %queue
  br label %repeat
repeat:
  %to = phi i64 [ %waiting.now, %spare ], [ %to.next, %again ]
  %filled = icmp eq i64 %to, {lanes}
  br i1 %filled, label %finish, label %again
again:
  %place = getelementptr {queue}, ptr %queue, i64 0, i64 %to
  store {{ptr, i64}} %first, ptr %place
  %to.next = add i64 %to, 1
  br label %repeat
finish:
  call i64 @settle{index}(ptr %slow, ptr %queue, i64 %waiting.now, i64 0)
  br label %done
done:
  ret void
}}"""
