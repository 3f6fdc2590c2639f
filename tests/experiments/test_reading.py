"""Whatever bytes a result is made of, reading it gives a result or an error that names its file."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backflip.experiments.base import Unable, read_result


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:0123456789.eE-nul', max_size=60).map(str.encode))
@example(b"[" * 100_000)
@example(b'{"seed": 1e999}')
@example(b"\xff\xfe{}")
def test_any_bytes_are_a_result_or_an_error_that_names_the_file(tmp_path, data):
    file = tmp_path / "ball.json"
    file.write_bytes(data)
    try:
        record = read_result(file)
    except Unable as error:
        assert "ball.json" in str(error)
        return
    with pytest.raises(Unable, match=r"ball\.json: it has no 'what is not there'"):
        record["what is not there"]
