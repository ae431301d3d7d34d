"""Lack of memory is said in a line, wherever it was met."""

import errno

import pytest

from hilrt.cli.main import lacks_memory, main


def caused(error):
    outer = RuntimeError("the model cannot be loaded")
    outer.__cause__ = error
    return outer


LACKS = [
    MemoryError(),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    ImportError("/lib/_internal.so: failed to map segment from shared object"),
]


@pytest.mark.parametrize("error", LACKS)
@pytest.mark.parametrize("wrap", [lambda e: e, caused, lambda e: ExceptionGroup("in a task", [e])])
def test_lack_of_memory_is_a_line_and_a_remedy(error, wrap, capsys):
    def command():
        raise wrap(error)

    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 3
    said = capsys.readouterr().err
    assert said.startswith("not enough memory: ")
    assert "ulimit -v" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "error", [ImportError("no module named x"), OSError(errno.ENOENT, "missing"), ValueError("x")]
)
def test_other_errors_are_no_lack_of_memory(error):
    assert lacks_memory(caused(error)) == ""
