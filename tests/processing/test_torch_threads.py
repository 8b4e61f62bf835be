"""The bound on torch's threads, and that it is put back however blocks overlap."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from lazymedia.processing import bounded_torch_threads


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    """A number that no block of a test sets, whatever this machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_the_bound_holds_inside_and_is_put_back() -> None:
    with bounded_torch_threads():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_the_bound_is_put_back_after_a_failure() -> None:
    with pytest.raises(KeyError), bounded_torch_threads():
        raise KeyError
    assert torch.get_num_threads() == 3


def test_the_outermost_block_of_a_thread_decides() -> None:
    with bounded_torch_threads(2):
        with bounded_torch_threads(1):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 3


def test_overlapping_blocks_leave_no_thread_bounded() -> None:
    """The second block begins while the first is open and ends after it; a plain save-and-restore would stay at one."""
    inside, leave, left = threading.Event(), threading.Event(), threading.Event()
    numbers: dict[str, int] = {}

    def other() -> None:
        with bounded_torch_threads():
            numbers["inside"] = torch.get_num_threads()
            inside.set()
            leave.wait(10)
        numbers["after"] = torch.get_num_threads()
        left.set()

    with bounded_torch_threads():
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(10)
    here = torch.get_num_threads()
    leave.set()
    assert left.wait(10)
    thread.join(10)
    later: list[int] = []
    newcomer = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    newcomer.start()
    newcomer.join(10)

    assert numbers == {"inside": 1, "after": 3}
    assert here == torch.get_num_threads() == 3
    assert later == [3]


def test_without_torch_there_is_nothing_to_bound_and_nothing_is_imported() -> None:
    code = (
        "import sys\n"
        "from lazymedia.processing import bounded_torch_threads\n"
        "with bounded_torch_threads(): pass\n"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "False"
