"""One case in a process of its own: CPU seconds of all its threads, peak memory, and what became of it.

The processes are forked from one that has loaded every library, so that none pays for an import, and a crash is a row.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from benchmarks.worst_cases.case import Case, Scale, bound
from lazymedia.errors import LazyMediaError
from lazymedia.limits import DEFAULT_LIMITS, Limits
from lazymedia.media import MediaRef
from lazymedia.media.audio import AudioMediaIO, resample
from lazymedia.media.image import ImageMediaIO, probe
from lazymedia.media.video import VideoMediaIO

WALL_CAP: Final = 600
"""Seconds after which one that waits is ended."""
MEMORY_CAP: Final = 8 << 30
"""Bytes of address space that a process may have."""

Ask = Callable[[bytes, Limits], "MediaRef[Any]"]


def _to_16_khz(data: bytes, limits: Limits) -> MediaRef[Any]:
    resampler = resample(16_000, limits=limits)
    return AudioMediaIO(limits=limits).load_bytes_ref(data).map(resampler, **resampler.settings())


ASKS: Final[dict[str, dict[str, Ask]]] = {
    "image": {
        "pil": lambda data, limits: ImageMediaIO(limits=limits).load_bytes_ref(data),
        "array": lambda data, limits: ImageMediaIO(output="array", limits=limits).load_bytes_ref(data),
    },
    "video": {
        "2 frames": lambda data, limits: VideoMediaIO(num_frames=2, limits=limits).load_bytes_ref(data),
        "32 frames": lambda data, limits: VideoMediaIO(limits=limits).load_bytes_ref(data),
    },
    "audio": {
        "native": lambda data, limits: AudioMediaIO(limits=limits).load_bytes_ref(data),
        "16 kHz": _to_16_khz,
    },
}
"""Ways to decode, by modality and name."""


@dataclass(slots=True)
class Row:
    """What one case cost.

    Attributes:
        case: Its name.
        modality: "image", "video" or "audio".
        ask: How it was decoded.
        size: Encoded bytes.
        asked: Pixels of the result, or seconds; where none came, those that the header has.
        bound: CPU seconds that this may cost.
        reference: CPU seconds of making the reference.
        header: CPU seconds of reading the header.
        decode: CPU seconds of the decode.
        peak: Bytes by which resident memory grew at most, beyond the payload.
        estimate: Bytes that the reference estimates; None where it does not.
        outcome: "decoded", "rejected: ...", or what went wrong.
        failed: Whether that is something that no input may do.
    """

    case: str
    modality: str
    ask: str
    size: int = 0
    asked: float = 0.0
    bound: float = 0.0
    reference: float = 0.0
    header: float = 0.0
    decode: float = 0.0
    peak: int = 0
    estimate: int | None = None
    outcome: str = ""
    failed: bool = False

    @property
    def cpu(self) -> float:
        """CPU seconds in all."""
        return self.reference + self.header + self.decode

    @property
    def over(self) -> bool:
        """Whether this is more than any input may do."""
        return self.failed or self.cpu > self.bound


def make(case: Case, scale: Scale, path: Path) -> str | None:
    """Write a case's payload to a file, from another process. What went wrong, or None."""
    return _forked(lambda: path.write_bytes(case.make(scale)))[1]


def run(case: Case, ask: str, path: Path, cap: int) -> Row:
    """Decode a payload in another process, which is ended after ``cap`` CPU seconds."""
    blank = Row(case.name, case.modality, ask, size=path.stat().st_size)
    found, fault = _forked(lambda: asdict(_measured(case, ask, path, cap)))
    if found is None:
        blank.outcome, blank.failed, blank.bound = str(fault), True, bound(blank.size, 0, case.modality)
        blank.decode = float(cap) if fault == _ended(signal.SIGXCPU) else 0.0
        return blank
    return Row(**found)


def _measured(case: Case, ask: str, path: Path, cap: int) -> Row:
    _limit(cap)
    row = Row(case.name, case.modality, ask)
    data = path.read_bytes()
    row.size = len(data)
    gc.collect()
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    ref: MediaRef[Any] | None = None
    result: Any = None
    try:
        with _counted(row, "reference"):
            ref = ASKS[case.modality][ask](data, case.limits)
        with _counted(row, "header"):
            row.asked = _by_header(case, ask, ref, data)
        row.estimate = ref.decoded_bytes
        with _counted(row, "decode"):
            result = ref.decode()
        row.outcome = "decoded"
        row.asked = _size_of(result, case.modality)
    except LazyMediaError as exc:
        row.outcome = f"rejected: {exc}"
    except Exception as exc:  # noqa: BLE001  # a decoder may raise nothing else
        row.outcome, row.failed = f"raised {type(exc).__name__}: {exc}", True
    row.peak = _memory("VmHWM") - before
    row.bound = bound(row.size, row.asked, case.modality)
    return row


def _by_header(case: Case, ask: str, ref: MediaRef[Any], data: bytes) -> float:
    """Pixels or seconds that are asked for, by the header; 0 where it has neither."""
    try:
        if case.modality == "image":
            header = probe(data, case.limits)
            return min(header.width * header.height, case.limits.max_image_pixels)
        if case.modality == "video":
            info = ref.probe()
            return len(info.frames_indices) * info.width * info.height if info else 0.0
        # A mapped reference has no header of its own.
        info = (ref if ask == "native" else ASKS["audio"]["native"](data, case.limits)).probe()
        return min(info.samples / info.rate, case.limits.max_audio_seconds) if info and info.samples else 0.0
    except LazyMediaError:
        return 0.0


def _size_of(result: Any, modality: str) -> float:
    if modality == "image":
        width, height = result.size if hasattr(result, "getbands") else result.shape[1::-1]
        return float(width * height)
    first, second = result
    return len(first) / second if modality == "audio" else float(first.size // 3)


@contextlib.contextmanager
def _counted(row: Row, part: str) -> Iterator[None]:
    begun = _cpu()
    try:
        yield
    finally:
        setattr(row, part, _cpu() - begun)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _memory(field: str) -> int:
    """Bytes, of this process. Linux only."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith(field)).split()[1]) << 10


def _limit(cap: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cap, cap + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_CAP, MEMORY_CAP))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _forked(work: Callable[[], Any]) -> tuple[Any | None, str | None]:
    """What a function returns in a forked process, or how that ended."""
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        os.close(receiving)
        _work(work, sending)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return None, _ended(os.WTERMSIG(status))
    found = json.loads(text) if text else {"fault": f"exit status {os.waitstatus_to_exitcode(status)}"}
    return found.get("result"), found.get("fault")


def _ended(number: int) -> str:
    if number == signal.SIGXCPU:
        return "ended: too many CPU seconds"
    if number == signal.SIGALRM:
        return f"ended after {WALL_CAP} seconds"
    return f"crashed by {signal.Signals(number).name}"


def _work(work: Callable[[], Any], sending: int) -> NoReturn:
    """Run it, send what it returns, and leave without the tidying up that belongs to the process that was forked."""
    signal.alarm(WALL_CAP)
    try:
        found = {"result": work()}
    except BaseException as exc:  # noqa: BLE001  # the other process reports it
        found = {"fault": f"{type(exc).__name__}: {exc}"}
    with os.fdopen(sending, "wb") as pipe:
        pipe.write(json.dumps(found).encode())
    os._exit(0)


def load_libraries() -> None:
    """Import what decodes load on their first use, and use it once; what is kept by that is no case's own cost."""
    from lazymedia.testing.audio import make_audio
    from lazymedia.testing.media import make_image
    from lazymedia.testing.video import make_video

    small: dict[str, list[Callable[[], bytes]]] = {
        "image": [partial(make_image, format=kind) for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "AVIF")],
        "audio": [partial(make_audio, 0.1, format=kind) for kind in ("WAV", "MP3", "M4A", "OGG")],
        "video": [partial(make_video, 8), partial(make_video, 2, codec="libvpx", container="webm")],
    }
    for modality, makers in small.items():
        for maker in makers:
            # Encoders start threads, of which a process that forks has none.
            encoded, fault = _forked(partial(_in_hex, maker))
            assert fault is None, fault
            for ask in ASKS[modality].values():
                ask(bytes.fromhex(str(encoded)), DEFAULT_LIMITS).decode()


def _in_hex(maker: Callable[[], bytes]) -> str:
    return maker().hex()


__all__ = ["ASKS", "Row", "load_libraries", "make", "run"]
