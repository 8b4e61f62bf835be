"""Every way to lead a fetch to every kind of address: what is dialled is inside the policy, in all of them.

More than ten thousand combinations of address, form of URL, number of hops, port and time at which a name turns. The
suite takes a part of them, and on trio all that dial nothing, which are rejected before a loop does anything.
``LAZYMEDIA_LONG_TESTS=1 pytest tests/fetch/test_policy_sweep.py`` takes all on both loops, in some minutes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import product
from urllib.parse import quote, unquote

from lazymedia.errors import LazyMediaError, NotAllowedError, UpstreamError
from lazymedia.fetch.body_buffer import BodyBuffer
from lazymedia.fetch.policy.address import AddressClass, AddressPolicy
from lazymedia.limits import Limits
from lazymedia.testing.server import MediaServer, Request, Response
from tests.fetch.dialled import PUBLIC, RecordingNetwork, open_downloader, web
from tests.fetch.test_address import EMBEDDED, FORBIDDEN_V4, METADATA, OUTSIDE_UNICAST

FORBIDDEN = sorted(
    {*FORBIDDEN_V4, *METADATA, *OUTSIDE_UNICAST, "::", "::1", "fe80::1", *(outer for *_, outer in EMBEDDED)}
)
ADMITTED = (PUBLIC, "8.8.8.8", "2606:4700::1", "64:ff9b::808:808")
FORMS = ("literal", "name", "name with a public address first", "name with a public address last", "name that turns")
HOPS = (0, 1, 2)
PORTS = (80, 443, 8080, 22)
COMBINATIONS = list(product([*FORBIDDEN, *ADMITTED], FORMS, HOPS, PORTS))
STRIDE = 1 if os.environ.get("LAZYMEDIA_LONG_TESTS") else 29


@dataclass(frozen=True)
class Trap:
    """One combination, with a name of its own, so that no connection of another is used again."""

    address: str
    form: str
    hops: int
    port: int
    name: str

    @property
    def is_silent(self) -> bool:
        """Whether nothing at all is dialled."""
        return not self.hops and self.form != "name that turns" and self.address not in ADMITTED

    @property
    def lookups(self) -> list[Sequence[str]]:
        """What the name resolves to, each time it is asked for."""
        scripts: dict[str, list[Sequence[str]]] = {
            "name": [[self.address]],
            "name with a public address first": [[PUBLIC, self.address]],
            "name with a public address last": [[self.address, PUBLIC]],
            "name that turns": [[PUBLIC], [self.address]],
        }
        return scripts.get(self.form, [])

    @property
    def url(self) -> str:
        """Where the fetch begins: at the trap itself, or at a harmless host that leads there."""
        literal = f"[{self.address}]" if ":" in self.address else self.address
        host = literal if self.form == "literal" else self.name
        url = f"http://{host}:{self.port}/end"
        if self.form == "name that turns":  # a first visit, and then back to the same name
            url = f"http://{host}:{self.port}/to?{quote(url, safe='')}"
        for _ in range(self.hops):
            url = f"http://{PUBLIC}/to?{quote(url, safe='')}"
        return url


async def lead_on(request: Request) -> Response:
    """A redirect to what the query says, on a connection that is not kept."""
    return Response(status=302, headers={"Location": unquote(request.target.partition("?")[2]), "Connection": "close"})


async def end(request: Request) -> Response:
    return Response(headers={"Connection": "close"}, body=b"payload")


def test_there_are_enough_combinations() -> None:
    assert len(COMBINATIONS) > 10_000


async def test_nothing_outside_the_policy_is_ever_dialled(anyio_backend: tuple[str, object]) -> None:
    policy = AddressPolicy.of((), (80, 443))
    every = [Trap(*combination, f"t{number}.example") for number, combination in enumerate(COMBINATIONS)]
    with_silent = anyio_backend[0] == "trio"
    traps = [trap for number, trap in enumerate(every) if (with_silent and trap.is_silent) or number % STRIDE == 0]
    script = {trap.name: list(trap.lookups) for trap in traps}

    def lookup(host: str) -> Sequence[str]:
        answers = script[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async with MediaServer({"/to": lead_on, "/end": end}) as server:
        network = RecordingNetwork(server.port)
        async with open_downloader(lookup, network, limits=Limits(max_redirects=4)) as downloader:
            for trap in traps:
                before = len(network.dials)
                outcome: bytes | LazyMediaError
                try:
                    outcome = (await downloader.download(web(trap.url), BodyBuffer(1000))).payload.data
                except (NotAllowedError, UpstreamError) as error:
                    outcome = error
                dialled = network.dials[before:]
                assert all(port in policy.ports for _, port in dialled), trap
                assert all(policy.classify(ip_address(host)) is AddressClass.PUBLIC for host, _ in dialled), trap
                if trap.address in ADMITTED and trap.port in policy.ports:
                    assert outcome == b"payload", trap
                else:
                    assert isinstance(outcome, NotAllowedError), trap
                    turns = trap.form == "name that turns" and trap.port in policy.ports
                    assert len(dialled) == trap.hops + turns, trap
