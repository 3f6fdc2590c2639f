"""LLVM text to object code; as a script, from its input to its output, so that all cores can work at once.

    python worker.py < text > object

It imports nothing of ours: a process is at work after a tenth of a second.
"""

import sys
from functools import cache
from typing import Any

import llvmlite.binding as llvm


@cache
def target() -> tuple[str, str, str]:
    """Triple, CPU and features of this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def machine() -> Any:
    """LLVM's code generator for this machine."""
    triple, cpu, features = target()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=1, reloc="pic", codemodel="jitdefault"
    )


def assemble(text: str) -> bytes:
    """Object code; the text is lean already, so no pass over it is worth its time."""
    module = llvm.parse_assembly(text)
    module.verify()
    return machine().emit_object(module)


if __name__ == "__main__":
    sys.stdout.buffer.write(assemble(sys.stdin.buffer.read().decode()))
