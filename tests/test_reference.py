"""The page of public names is as the code has it."""

import runpy
from pathlib import Path


def test_the_reference_lists_every_public_name_as_it_is():
    docs = Path(__file__).parents[1] / "docs"
    page = runpy.run_path(str(docs / "names.py"))["page"]()
    stored = (docs / "reference.md").read_text("utf-8")
    assert stored == page, "run `python docs/names.py`"
