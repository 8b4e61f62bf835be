"""The command line as a user sees it: what is printed, where, and the exit status."""

from __future__ import annotations

import base64
import errno
import hashlib
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from safetensors.numpy import load_file

import lazymedia
from lazymedia.cli import main
from lazymedia.testing import MediaServer, make_audio, make_image, make_processor, make_video
from lazymedia.testing.server import Request, Response
from tests.programs import Programs

BACKENDS = pytest.mark.parametrize("backend", ["trio", "asyncio"])


async def kept(request: Request) -> Response:
    return Response(headers={"Cache-Control": "max-age=60"}, body=make_image(50, 40))


@pytest.fixture
def server() -> Iterator[MediaServer]:
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(
            MediaServer({"/a.png": make_image(50, 40), "/b.txt": b"hello", "/kept.png": kept})
        ) as opened,
    ):
        yield opened


def body(*urls: str) -> dict[str, Any]:
    parts: list[Any] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {"model": "any", "messages": [{"role": "user", "content": [*parts, {"type": "text", "text": "?"}]}]}


def write(folder: Path, value: object) -> str:
    path = folder / "request.json"
    path.write_text(json.dumps(value))
    return str(path)


def data_url(payload: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(payload).decode()}"


@BACKENDS
def test_render_shows_hits_misses_shapes_and_times(
    backend: str, tmp_path: Path, server: MediaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    request = write(tmp_path, body(server.url("/a.png"), data_url(make_image(30, 20, seed=1))))

    status = main(["render", request, "--repeat", "2", "--allowed-network", "127.0.0.0/8", "--backend", backend])

    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    cold, hot = out.strip().split("\n\n")
    assert (cold.count(" miss "), cold.count(" hit "), hot.count(" miss "), hot.count(" hit ")) == (2, 0, 0, 2)
    assert "pixel_values 1x3x336x336 float32" in cold
    assert " ms" in cold
    assert "576 at " in cold


def test_render_as_json_and_as_safetensors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, out = tmp_path / "processor", tmp_path / "out.safetensors"
    make_processor("qwen2_vl").save_pretrained(saved)
    request = write(tmp_path, body(data_url(make_image(60, 40))))

    assert main(["render", request, "--json", "--processor", str(saved), "--out", str(out)]) == 0

    shown = json.loads(capsys.readouterr().out)
    tensors = load_file(out)
    item = shown["items"]["image"][0]
    assert set(tensors) >= {"input_ids", "attention_mask", "pixel_values", "image_grid_thw"}
    assert tensors["input_ids"].tolist() == [shown["prompt_token_ids"]]
    assert item["arrays"]["pixel_values"]["shape"] == list(tensors["pixel_values"].shape)
    assert (item["cached"], len(item["hash"])) == (False, 64)


@BACKENDS
def test_plan_shows_what_render_will(
    backend: str, tmp_path: Path, server: MediaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    request = write(tmp_path, body(server.url("/a.png"), data_url(make_image(30, 20, seed=1))))
    options = [request, "--allowed-network", "127.0.0.0/8", "--backend", backend]

    shown = {}
    for command in ("plan", "render"):
        assert main([command, *options, "--json"]) == 0
        shown[command] = json.loads(capsys.readouterr().out)
    del shown["render"]["timings"]
    for item in shown["render"]["items"]["image"]:
        del item["arrays"]
    assert shown["plan"] == shown["render"]

    assert main(["plan", *options]) == 0
    out, err = capsys.readouterr()
    assert (err, out.count("576 at "), " ms" in out) == ("", 2, True)


def test_what_cannot_be_planned_is_one_line_and_status_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", write(tmp_path, body(data_url(b"junk")))]) == 1

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "image at index 0 cannot be planned: its header" in err


def test_render_reads_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(body(data_url(make_image())))))

    assert main(["render", "-"]) == 0
    assert "miss" in capsys.readouterr().out


def test_render_passes_on_what_the_body_says_about_the_template(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "processor"
    template = (
        "{% for tool in tools or [] %}<{{ tool.function.name }}>{% endfor %}{{ day }}"
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    make_processor("llava", chat_template=template).save_pretrained(saved)
    asked = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    more = {
        "tools": [{"function": {"name": "look"}}],
        "chat_template_kwargs": {"day": "1"},
        "add_generation_prompt": False,
    }
    prompts = []
    for request in (asked, asked | more, asked | {"continue_final_message": True}, asked | {"chat_template": "no"}):
        assert main(["render", write(tmp_path, request), "--json", "--processor", str(saved)]) == 0
        prompts.append(json.loads(capsys.readouterr().out)["prompt"])

    plain = "[user]a[assistant]b"
    assert prompts == [f"{plain}[assistant]", f"<look>1{plain}", plain, f"{plain}[assistant]"]


def test_render_takes_uuids_for_the_users_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = body(data_url(make_image()))
    named["messages"][0]["content"][0]["uuid"] = "cat"

    assert main(["render", write(tmp_path, named), "--repeat", "2"]) == 0
    assert " hit " in capsys.readouterr().out


@BACKENDS
def test_a_refused_item_is_one_line_and_status_one(
    backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = write(tmp_path, body(data_url(make_image()), "http://169.254.169.254/latest"))

    assert main(["render", request, "--backend", backend]) == 1

    out, err = capsys.readouterr()
    assert (out, err) == ("", "error: image at index 1: not allowed by policy\n")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-command"],
        ["render"],
        ["render", "x", "--repeat", "0"],
        ["render", "x", "--backend", "curio"],
        ["probe"],
        ["probe", "x", "--media-io-kwargs", "not json"],
        ["probe", "x", "--media-io-kwargs", "[]"],
        ["fetch", "x"],
    ],
)
def test_bad_usage_is_status_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["render", "no-such-file.json"], "cannot read"),
        (["probe", "no-such-file.png"], "no such file"),
        (["demo", "no-such-file.png"], "no such file"),
        (["render", "{}", "--processor", "no-such-folder"], "no such folder"),
        (["render", "{}", "--processor", "tests"], "lazymedia render:"),
        (["render", "{}", "--out", "no-such-folder/x.safetensors"], "no such folder"),
        (["render", "{}", "--allowed-network", "nonsense"], "nonsense"),
        (["render", "{}", "--allowed-local-media-path", "no-such-folder"], "lazymedia render:"),
        (["render", "{}", "--media-io-kwargs", '{"image": {"bogus": 1}}'], "bogus"),
        (["probe", "data:,x", "--allowed-media-domain", "http://x"], "lazymedia probe:"),
        (["probe", "data:,x", "--media-io-kwargs", '{"image": {"bogus": 1}}'], "bogus"),
        (["probe", "data:,x", "--media-io-kwargs", '{"image": {"image_mode": "Z"}}'], "image_mode"),
        (["probe", "data:,x", "--media-io-kwargs", '{"image": 5}'], "lazymedia probe:"),
        (["probe", "data:,x", "--media-io-kwargs", '{"video": {"index_cache": 5}}'], "index_cache"),
        (["fetch", "data:,x", "-o", "README.md"], "README.md"),
    ],
)
def test_what_does_not_exist_is_bad_usage_too(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = write(tmp_path, body(data_url(make_image())))

    assert main([request if argument == "{}" else argument for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("field", ["media_io_kwargs", "mm_processor_kwargs"])
def test_options_in_a_request_that_make_no_sense_fail_the_request(
    field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = write(tmp_path, {**body(data_url(make_image())), field: 5})

    assert main(["render", request]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_limits_come_from_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = write(tmp_path, body(data_url(make_image(50, 40))))
    monkeypatch.setenv("LAZYMEDIA_MAX_IMAGE_PIXELS", "1000")

    assert main(["render", request]) == 1
    assert "image at index 0" in capsys.readouterr().err
    monkeypatch.setenv("LAZYMEDIA_MAX_IMAGE_PIXELS", "many")
    assert main(["render", request]) == 2


def test_options_on_the_command_line_are_the_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = write(tmp_path, body(data_url(make_image(50, 40))))

    assert main(["render", request, "--media-io-kwargs", '{"image": {"output": "array"}}']) == 0
    assert "miss" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["nonsense", "[]", "{}", '"x"'])
def test_a_request_that_is_none_is_bad_usage(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "request.json"
    path.write_text(text)

    assert main(["render", str(path)]) == 2
    assert "request.json" in capsys.readouterr().err


def test_probe_shows_what_a_reference_knows(
    tmp_path: Path, server: MediaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, cut = tmp_path / "p.jpg", tmp_path / "cut.png"
    picture.write_bytes(make_image(70, 50, format="JPEG"))
    cut.write_bytes(make_image()[:10])
    network = ["--allowed-network", "127.0.0.0/8"]

    assert main(["probe", str(picture), server.url("/a.png"), server.url("/b.txt"), str(cut), *network]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [" 70 x 50 " in lines[1], " 50 x 40 " in lines[2]] == [True, True]
    assert ["unreadable" in lines[3], "unreadable" in lines[4]] == [True, True]

    assert main(["probe", str(picture), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["header"]["format"], len(shown["key"])) == ("JPEG", 64)


def test_probe_tells_videos_and_audio_by_their_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = {
        "clip.bin": make_video(40, audio=True),
        "sound.mp4": make_audio(2, 44_100, 2, format="M4A"),
        "sound.mp3": make_audio(2, 44_100, 2, format="MP3"),
        "moving.gif": make_video(9, codec="gif", container="gif", pixel_format="rgb8"),
    }
    for name, data in sources.items():
        (tmp_path / name).write_bytes(data)
    files = [str(tmp_path / name) for name in sources]

    assert main(["probe", *files]) == 0
    clip, mp4, mp3, gif = capsys.readouterr().out.splitlines()[1:]
    assert " video     128 x 64, 1.60 s, 40 frames, 32 of them wanted" in clip
    assert ["44100 Hz, 2 channel(s), 2.00 s" in mp4, "44100 Hz, 2 channel(s), length unknown" in mp3] == [True, True]
    assert "GIF 128 x 64" in gif

    assert main(["probe", files[0], "--modality", "audio", "--json"]) == 0
    (sound,) = json.loads(capsys.readouterr().out)
    assert (sound["modality"], sound["header"]["rate"], sound["spec"]) == ("audio", 48_000, {"audio_backend": "pyav"})
    assert main(["probe", files[3], "--modality", "video", "--json"]) == 0
    (moving,) = json.loads(capsys.readouterr().out)
    assert moving["header"]["frames_indices"] == list(range(9))


def test_a_library_that_is_not_there_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    assert main(["probe", "data:,x", "--media-io-kwargs", '{"video": {"video_backend": "torchcodec"}}']) == 2
    err = capsys.readouterr().err
    assert "the extra 'torchcodec' of lazymedia" in err
    assert err.count("\n") == 1


def test_fetch_writes_payloads_under_names_made_of_their_digests(
    tmp_path: Path, server: MediaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out" / "deeper"

    status = main(
        ["fetch", server.url("/a.png"), server.url("/b.txt"), "-o", str(folder), "--allowed-network", "127.0.0.0/8"]
    )

    assert status == 0
    assert {path.suffix: path.read_bytes() for path in folder.iterdir()} == {
        ".png": make_image(50, 40),
        ".bin": b"hello",
    }
    out = capsys.readouterr().out
    assert all(path.name in out for path in folder.iterdir())


def test_a_cache_on_disk_saves_the_second_download(
    tmp_path: Path, server: MediaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--allowed-network", "127.0.0.0/8", "--cache-dir", str(tmp_path / "cache")]

    for _ in range(2):
        assert main(["fetch", server.url("/kept.png"), "-o", str(tmp_path / "out"), *options]) == 0
        assert main(["probe", server.url("/kept.png"), *options]) == 0
    assert server.hits["/kept.png"] == 1
    assert main(["probe", server.url("/kept.png"), *options[:3], ""]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@BACKENDS
def test_the_demonstration_decodes_and_processes_nothing_the_second_time(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--json", "--backend", backend]) == 0

    rounds = json.loads(capsys.readouterr().out)
    assert [round_["modality"] for round_ in rounds] == ["image"] * 3 + ["audio"] * 3 + ["video"] * 3
    for start in (0, 3, 6):
        cold, hot, mixed = rounds[start : start + 3]
        known = 1 if start == 6 else 3
        assert (cold["hits"], cold["decoded"], cold["processed"]) == (0, known, known)
        assert (hot["hits"], hot["decoded"], hot["processed"]) == (known, 0, 0)
        assert (mixed["hits"], mixed["decoded"], mixed["processed"]) == (known, 1, 1)
        assert cold["fetched_bytes"] == hot["fetched_bytes"] > 50_000


def test_the_demonstration_takes_pictures_of_the_users_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [tmp_path / name for name in ("one.png", "two.jpg")]
    names[0].write_bytes(make_image(40, 30))
    names[1].write_bytes(make_image(40, 30, format="JPEG", seed=1))

    assert main(["demo", *map(str, names)]) == 0
    out = capsys.readouterr().out
    assert "2 pictures" in out
    assert "mixed (one new among the known)" in out
    assert main(["demo", str(names[0])]) == 0
    out = capsys.readouterr().out
    assert "1 pictures" in out
    assert "mixed" not in out


@BACKENDS
def test_ctrl_c_is_status_130_and_no_traceback(backend: str) -> None:
    program = (
        "import os, signal, sys, threading\n"
        # A shell starts what it puts into the background with the signal ignored, and that is inherited.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from lazymedia.cli import main\n"
        "from lazymedia.cli import probe\n"
        "async def stand_still(*_):\n"
        "    import anyio\n"
        "    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    async with anyio.create_task_group() as nursery:\n"
        "        nursery.start_soon(anyio.sleep_forever)\n"
        "probe._probe = stand_still\n"
        f"sys.exit(main(['probe', 'data:,x', '--backend', '{backend}']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stderr) == (130, "")


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lazymedia.cli", "--help"], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0
    assert all(command in done.stdout for command in ("render", "plan", "probe", "fetch", "demo"))


@BACKENDS
@pytest.mark.parametrize("command", ["fetch", "probe"])
def test_every_source_has_an_outcome_and_a_bad_one_stops_no_other(
    command: str, backend: str, tmp_path: Path, server: MediaServer, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "p.png"
    picture.write_bytes(make_image(30, 20))
    bad = {
        "http://169.254.169.254/latest": "not allowed by policy",
        server.url("/missing.png"): "404",
        str(tmp_path / "gone.png"): "no such file",
        "data:image/png;base64,%": "",
    }
    sources = [*list(bad)[:2], server.url("/a.png"), *list(bad)[2:], str(picture)]
    out = [] if command == "probe" else ["-o", str(tmp_path / "out")]
    options = [*sources, *out, "--allowed-network", "127.0.0.0/8", "--backend", backend]

    assert main([command, *options, "--json"]) == 1

    shown, err = capsys.readouterr()
    rows = json.loads(shown)
    assert [row["source"] for row in rows] == sources
    assert {row["source"] for row in rows if "error" in row} == set(bad)
    assert all(bad[row["source"]] in row["error"] for row in rows if "error" in row)
    assert all(f"error: {source}: " in err for source in bad)
    assert err.count("\n") == len(bad)
    assert main([command, *options]) == 1
    table = capsys.readouterr().out.splitlines()
    assert [line.startswith(source[:20]) for line, source in zip(table[1:], sources)] == [True] * len(sources)
    assert [" failed" in line for line in table[1:]] == [source in bad for source in sources]
    if command == "fetch":
        (written,) = {row["file"] for row in rows if row["source"] == str(picture)}
        assert Path(written).read_bytes() == make_image(30, 20)


@BACKENDS
@pytest.mark.parametrize("command", ["fetch", "probe"])
def test_sources_are_fetched_concurrently(
    command: str, backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of four responses waits until all four requests have arrived."""
    arrived: list[str] = []
    all_here = threading.Event()

    async def wait(request: Request) -> Response:
        arrived.append(request.target)
        if len(arrived) == 4:
            all_here.set()
        await anyio.to_thread.run_sync(all_here.wait, 30)
        return Response(body=make_image(8, 8))

    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(MediaServer({f"/{n}": wait for n in range(4)})) as opened,
    ):
        urls = [opened.url(f"/{n}") for n in range(4)]
        out = [] if command == "probe" else ["-o", str(tmp_path)]
        assert main([command, *urls, *out, "--allowed-network", "127.0.0.0/8", "--backend", backend]) == 0
    assert sorted(arrived) == [f"/{n}" for n in range(4)]
    assert len(capsys.readouterr().out.splitlines()) == 5


COMMANDS = [
    pytest.param(["probe", *["data:,x"] * 20], id="probe"),
    pytest.param(["fetch", *["data:,x"] * 20, "-o", "OUT"], id="fetch"),
    pytest.param(["render", "REQUEST", "--repeat", "3"], id="render"),
    pytest.param(["plan", "REQUEST", "--repeat", "3"], id="plan"),
    pytest.param(["demo", "PICTURE", "--json"], id="demo"),
]


def words(command: list[str], folder: Path) -> list[str]:
    """A command whose files are in a folder."""
    request, picture = write(folder, body(data_url(make_image()))), folder / "picture.png"
    picture.write_bytes(make_image(40, 30))
    names = {"OUT": str(folder), "REQUEST": request, "PICTURE": str(picture)}
    return [names.get(word, word) for word in command]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_broken_pipe_is_quiet(command: list[str], tmp_path: Path, programs: Programs) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = programs.run("-m", "lazymedia.cli", *words(command, tmp_path), stdout=writer)
    finally:
        os.close(writer)

    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("command", COMMANDS)
def test_output_on_a_full_disk_is_one_line_and_status_one(
    command: list[str], tmp_path: Path, programs: Programs
) -> None:
    with Path("/dev/full").open("w") as full:
        done = programs.run("-m", "lazymedia.cli", *words(command, tmp_path), stdout=full)

    assert (done.returncode, done.stderr) == (1, "error: the output cannot be written: No space left on device\n")


def test_a_file_that_cannot_be_written_is_that_sources_outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if target.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    (tmp_path / f"{hashlib.sha256(b'x').hexdigest()}.bin").write_bytes(b"planted")

    assert main(["fetch", "data:,x", "data:,y", "-o", str(tmp_path), "--json"]) == 1

    bad, good = json.loads(capsys.readouterr().out)
    assert bad == {"source": "data:,x", "error": "cannot be written: No space left on device", "status": None}
    assert Path(good["file"]).read_bytes() == b"y"
    assert len(list(tmp_path.iterdir())) == 2  # no part of the file that failed is left


def test_fetch_replaces_a_symbolic_link_and_does_not_follow_it(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder = tmp_path / "out"
    folder.mkdir()
    link = folder / f"{hashlib.sha256(b'x').hexdigest()}.bin"
    link.symlink_to(victim)

    assert main(["fetch", "data:,x", "-o", str(folder)]) == 0
    assert (victim.read_bytes(), link.read_bytes(), link.is_symlink()) == (b"precious", b"x", False)
    assert link.stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("command", ["fetch", "probe"])
def test_names_of_files_send_nothing_to_the_terminal(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Escape sequences, bidirectional marks and bytes that are no UTF-8."""
    names = ["\x1b]0;owned\x07\x1b[2J.png", "a\u202egnp.exe", "b\udcff.png", "tab\tnew\nline.png"]
    for name in names:
        (tmp_path / name).write_bytes(make_image(9, 9))
    out = [] if command == "probe" else ["-o", str(tmp_path / "out")]
    files = [str(tmp_path / name) for name in names]

    assert main([command, *files, str(tmp_path / "\x1b[31mgone"), *out]) == 1

    shown, err = capsys.readouterr()
    assert all(line.isprintable() for line in [*shown.splitlines(), *err.splitlines()])
    assert ["\\x1b[31mgone" in err, len(shown.splitlines())] == [True, 6]
    assert main(["render", "\x1b[31mgone.json"]) == 2
    assert capsys.readouterr().err.rstrip("\n").isprintable()


def test_progress_is_shown_on_a_terminal_only(programs: Programs) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        done = programs.run("-m", "lazymedia.cli", "probe", "data:,x", "data:,y", stderr=terminal)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)

    assert done.returncode == 0
    assert [f"{n} of 2 fetched" in shown for n in range(3)] == [True] * 3
    assert shown.endswith("\r\x1b[K")
    piped = programs.run("-m", "lazymedia.cli", "probe", "data:,x", "data:,y")
    assert (piped.stderr, piped.stdout) == ("", done.stdout)


def test_the_version_and_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"lazymedia {lazymedia.__version__}\n"
    for arguments in (["--help"], *([command, "--help"] for command in ("render", "plan", "probe", "fetch", "demo"))):
        with pytest.raises(SystemExit, match="0"):
            main(arguments)
        shown = capsys.readouterr().out
        assert ["example:" in shown, "exit status" in shown] == [True, True]


def test_a_processor_may_be_named_as_the_local_cache_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = write(tmp_path, body(data_url(make_image())))

    assert main(["render", request, "--processor", "no-such-organisation/no-such-model"]) == 2

    err = capsys.readouterr().err
    assert ["hf download" in err, "internet" in err, err.count("\n")] == [True, False, 1]
