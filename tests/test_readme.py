"""Code on our pages runs: README.md and docs/, block after block, one namespace for each page."""

import re
import shlex
from pathlib import Path

import pytest

from backflip import cli

ROOT = Path(__file__).parents[1]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.is_file()]

BLOCK = re.compile(r"^```python[ \t]*(?P<mark>[^\n]*)\n(?P<code>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
NO_RUN = "no-run"


def blocks(text: str) -> list[tuple[int, str]]:
    """(line number, code) of every block that is to be run."""
    return [
        (text.count("\n", 0, block.start("code")), block["code"])
        for block in BLOCK.finditer(text)
        if NO_RUN not in block["mark"]
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_on_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__page__"}
    for line, code in blocks(page.read_text("utf-8")):
        # empty lines before the code make a traceback point at the page's own line
        exec(compile("\n" * line + code, str(page), "exec"), namespace)


FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
OURS = r"(?:backflip|make) [a-z][^`\n]*"


def commands(text: str) -> list[list[str]]:
    """Words of every command of ours on a page: in a block, indented, or between backticks."""
    shell = "\n".join(code for language, code in FENCED.findall(text) if language in ("", "bash"))
    lines = re.findall(f"^{OURS}", shell, re.MULTILINE)
    lines += re.findall(f"(?:^    |`)({OURS})", FENCED.sub("", text), re.MULTILINE)
    return [shlex.split(line.partition("   ")[0], comments=True) for line in lines]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_commands_on_the_page_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for tool, *words in commands(page.read_text("utf-8")):
        if tool == "make":
            assert words[0] in targets, f"make {words[0]}"
        else:
            cli._parser().parse_args(words)


def test_commands_are_seen_wherever_they_stand() -> None:
    text = (
        "backflip is\n```python\nx = 'y\n```\n```bash\nmake demo  # first\nls\n```\n"
        "`make laws` and `backflip run a`\n\n    backflip list    all\n"
    )
    assert commands(text) == [
        ["make", "demo"],
        ["make", "laws"],
        ["backflip", "run", "a"],
        ["backflip", "list"],
    ]


def test_marked_blocks_are_left_out() -> None:
    text = (
        "a\n```python\nx = 1\n```\n\n```python no-run\nboom\n```\n```bash\nls\n```\n```python\ny = 2\n```\n"
    )
    assert blocks(text) == [(2, "x = 1\n"), (12, "y = 2\n")]
