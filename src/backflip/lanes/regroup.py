"""A while loop of many robots: those that want more turns than most are gathered into full vectors.

A vector turns until the slowest of its robots is done, and the slowest of 16 needs several times as long as
most. Here it turns until few want more. Those move to a vector of the slow, lane by lane, which turns when it
is full, and so on; each goes home when it is done. What a turn reads and writes of a robot is all that moves.
"""

from backflip.lanes.emit import Regrouped

FEW = 0.375
"""of the lanes: the rest of a vector turns no longer for so few, they move"""


def regroup_ir(
    index: int, loop: Regrouped, copies: dict[str, str], wanting: int, slot: int, lanes: int, frame: int
) -> str:
    """@regroup{index}(ptr frames, ptr slow, i64 count): all turns of a loop, for `count` vectors.

    Frames are `frame` bytes apart, and begin with their ports; `slow` is one more. `copies` are the lines
    that copy the lane %from of an area at %source to the lane %to at %target. `wanting` is where in a frame
    the test says which lanes want a turn, and `slot` the number of that port.
    """
    few = int(FEW * lanes)
    fixed, carried = ("\n".join(copies[a] for a in of if a in copies) for of in (loop.fixed, loop.carried))
    return "\n".join([
        _copy(f"move{index}", f"{fixed}\n{carried}"),
        _copy(f"home{index}", carried),
        _turns(index, wanting),
        _settle(index, lanes),
        _regroup(index, wanting, slot, lanes, few, frame),
    ])  # fmt: skip


def copy_lane_ir(size: int, lanes: int) -> str:
    """@lane.copy.{size}: `count` elements, of `size` bytes, of a lane to another."""
    kind, step = f"i{8 * size}", lanes * size
    return f"""define internal void @lane.copy.{size}(ptr %source, ptr %target, i64 %count) nounwind {{
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %skip = mul i64 %k, {step}
  %a = getelementptr i8, ptr %source, i64 %skip
  %b = getelementptr i8, ptr %target, i64 %skip
  %x = load {kind}, ptr %a
  store {kind} %x, ptr %b
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, %count
  br i1 %more, label %next, label %done
done:
  ret void
}}"""


def copy_area(name: str, at: int, count: int, size: int) -> str:
    """Lines that copy a lane of an area, `at` in the frame."""
    lines = []
    for end, lane in (("source", "from"), ("target", "to")):
        here = f"%{end}.{name}"
        lines += [
            f"{here}.lane = mul i64 %{lane}, {size}",
            f"{here}.at = add i64 {here}.lane, {at}",
            f"{here} = getelementptr i8, ptr %{end}, i64 {here}.at",
        ]
    lines.append(f"call void @lane.copy.{size}(ptr %source.{name}, ptr %target.{name}, i64 {count})")
    return "\n".join(lines)


def _copy(name: str, lines: str) -> str:
    return f"""define internal void @{name}(ptr %source, i64 %from, ptr %target, i64 %to) nounwind {{
entry:
{lines}
  ret void
}}"""


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
    """Turns of the slow; those that are done go home, the others close ranks. How many they are."""
    homes = f"[{lanes} x {{ptr, i64}}]"
    return f"""define internal i64 @settle{index}(ptr %slow, ptr %homes, i64 %count, i64 %few) nounwind {{
entry:
  %wanting = call i64 @turns{index}(ptr %slow, i64 %few)
  br label %look
look:
  %lane = phi i64 [ 0, %entry ], [ %lane.next, %next ]
  %left = phi i64 [ 0, %entry ], [ %left.next, %next ]
  %bit = lshr i64 %wanting, %lane
  %wants = trunc i64 %bit to i1
  %at = getelementptr {homes}, ptr %homes, i64 0, i64 %lane
  %home = load {{ptr, i64}}, ptr %at
  br i1 %wants, label %stays, label %goes
stays:
  call void @move{index}(ptr %slow, i64 %lane, ptr %slow, i64 %left)
  %to = getelementptr {homes}, ptr %homes, i64 0, i64 %left
  store {{ptr, i64}} %home, ptr %to
  %more = add i64 %left, 1
  br label %next
goes:
  %frame = extractvalue {{ptr, i64}} %home, 0
  %place = extractvalue {{ptr, i64}} %home, 1
  call void @home{index}(ptr %slow, i64 %lane, ptr %frame, i64 %place)
  br label %next
next:
  %left.next = phi i64 [ %more, %stays ], [ %left, %goes ]
  %lane.next = add i64 %lane, 1
  %go = icmp ult i64 %lane.next, %count
  br i1 %go, label %look, label %done
done:
  ret i64 %left.next
}}"""


def _regroup(index: int, wanting: int, slot: int, lanes: int, few: int, frame: int) -> str:
    """All vectors, and the slow of each; a single one has nobody to wait for."""
    homes = f"[{lanes} x {{ptr, i64}}]"
    return f"""define internal void @regroup{index}(ptr %frames, ptr %slow, i64 %count) nounwind {{
entry:
  %homes = alloca {homes}
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
  %left = phi i64 [ %wanting, %vector ], [ %left.next, %moved ]
  %waiting.now = phi i64 [ %waiting, %vector ], [ %waiting.next, %moved ]
  %none = icmp eq i64 %left, 0
  br i1 %none, label %vector.next, label %move
move:
  %lane = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %less = sub i64 %left, 1
  %left.next = and i64 %left, %less
  call void @move{index}(ptr %frame, i64 %lane, ptr %slow, i64 %waiting.now)
  %at = getelementptr {homes}, ptr %homes, i64 0, i64 %waiting.now
  %home.frame = insertvalue {{ptr, i64}} poison, ptr %frame, 0
  %home = insertvalue {{ptr, i64}} %home.frame, i64 %lane, 1
  store {{ptr, i64}} %home, ptr %at
  %with = add i64 %waiting.now, 1
  %full = icmp eq i64 %with, {lanes}
  br i1 %full, label %turn, label %moved
turn:
  %remaining = call i64 @settle{index}(ptr %slow, ptr %homes, i64 {lanes}, i64 {few})
  br label %moved
moved:
  %waiting.next = phi i64 [ %with, %move ], [ %remaining, %turn ]
  br label %look
vector.next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %vector, label %last
last:
  %nobody = icmp eq i64 %waiting.now, 0
  br i1 %nobody, label %done, label %repeat
repeat: ; lanes to spare repeat the first
  %to = phi i64 [ %waiting.now, %last ], [ %to.next, %again ]
  %filled = icmp eq i64 %to, {lanes}
  br i1 %filled, label %finish, label %again
again:
  call void @move{index}(ptr %slow, i64 0, ptr %slow, i64 %to)
  %to.next = add i64 %to, 1
  br label %repeat
finish:
  call i64 @settle{index}(ptr %slow, ptr %homes, i64 %waiting.now, i64 0)
  br label %done
done:
  ret void
}}"""
