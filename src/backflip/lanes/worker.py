"""LLVM text to object code; as a script, from one file to another, so that all cores can work at once.

    python worker.py LIBRARIES TEXT OBJECT CPU FEATURES

The script imports nothing of ours: a process is at work after a tenth of a second. What it makes leaves it in
a file with a length and a checksum, never by stdout, where anybody may print. LIBRARIES is the folder of
llvmlite: Python is started without site-packages, and so without start-up files.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any


def generator(cpu: str, features: str) -> Any:
    """LLVM's code generator for a CPU of this machine's kind."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=cpu, features=features, opt=1, reloc="pic", codemodel="jitdefault"
    )


def assemble(text: str, cpu: str, features: str) -> bytes:
    """Object code; the text is lean already, so no pass over it is worth its time."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    return generator(cpu, features).emit_object(module)


def seal(code: bytes) -> bytes:
    """Object code behind a line with its length and checksum."""
    return f"backflip object {len(code)} {hashlib.sha256(code).hexdigest()}\n".encode() + code


def unseal(content: bytes) -> bytes | None:
    """What `seal` was given; None if it was not whole."""
    code = content.partition(b"\n")[2]
    return code if code and seal(code) == content else None


def main(libraries: str, text: str, result: str, cpu: str, features: str) -> None:
    """Assemble a file."""
    sys.path.append(libraries)
    Path(result).write_bytes(seal(assemble(Path(text).read_text("utf-8"), cpu, features)))


if __name__ == "__main__":
    main(*sys.argv[1:])
