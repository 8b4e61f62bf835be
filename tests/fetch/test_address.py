"""Verdicts on addresses, at the edges of every special block and in every wrapping."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest

from lazymedia.errors import NotAllowedError
from lazymedia.fetch.policy.address import AddressClass, AddressPolicy

DEFAULT = AddressPolicy.of((), (80, 443))
HTTP_PORTS = (80, 443)

# IANA's registries of special-purpose addresses, those not "globally reachable", and multicast.
SPECIAL_BLOCKS = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32"),
    *("::/128", "::1/128", "::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23"),
    *("2001::/32", "2001:2::/48", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10"),
    *("fec0::/10", "ff00::/8"),
)

# One step outside a block, where no other special block begins.
NEIGHBOURS = (
    *("1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0"),
    *("169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.1.255"),
    *("192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0"),
    *("198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255"),
    *("2000::", "2001:200::", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::", "2003::"),
    *("2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"),
    "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
)

PUBLIC = ("8.8.8.8", "93.184.216.34", "192.31.196.1", "192.52.193.1", "2606:4700:4700::1111", "2a00:1450:4001::1")

# Reserved or unallocated space between the blocks above.
OUTSIDE_UNICAST = (
    "::2:0:0:0:0",
    "1fff:ffff::1",
    "4000::",
    "64:ff9a:ffff::1",
    "64:ff9b:0:0:0:1::",
    "fbff::1",
    "fe00::1",
)

METADATA = (
    *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
    *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "169.254.42.42", "fd00:42::42"),
    *("169.254.0.23", "fe80::a9fe:a9fe", "fd00:a9fe:a9fe::1"),
)

FORBIDDEN_V4 = (
    *("0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.0.1", "169.254.169.254"),
    *("172.16.0.1", "192.0.0.192", "192.168.1.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("100.100.100.200", "168.63.129.16", "169.254.42.42", "169.254.0.23"),
)


def wrappings(inner: str) -> dict[str, str]:
    """IPv6 addresses that a kernel, a gateway or a tunnel would turn into ``inner``."""
    v4 = int(IPv4Address(inner))
    return {
        "mapped": str(IPv6Address(0xFFFF << 32 | v4)),
        "compatible": str(IPv6Address(v4)),
        "translated": str(IPv6Address(0xFFFF << 48 | v4)),
        "local nat64": str(IPv6Address(int(IPv6Address("64:ff9b:1::")) | v4)),
        "nat64": str(IPv6Address(int(IPv6Address("64:ff9b::")) | v4)),
        "6to4": str(IPv6Address(0x2002 << 112 | v4 << 80)),
        "teredo server": str(IPv6Address(0x20010000 << 96 | v4 << 64 | 0xA247D7DD)),
        "teredo client": str(IPv6Address(0x20010000 << 96 | int(IPv4Address("93.184.216.34")) << 64 | v4 ^ 0xFFFFFFFF)),
        "isatap": str(IPv6Address(int(IPv6Address("2a00:1450::5efe:0:0")) | v4)),
        "isatap global": str(IPv6Address(int(IPv6Address("2a00:1450::200:5efe:0:0")) | v4)),
    }


EMBEDDED = [(inner, form, outer) for inner in FORBIDDEN_V4 for form, outer in wrappings(inner).items()]


@pytest.mark.parametrize("block", SPECIAL_BLOCKS)
def test_the_first_and_last_address_of_a_special_block_are_refused(block: str) -> None:
    network = ip_network(block)

    assert DEFAULT.classify(network[0]) is AddressClass.REJECTED
    assert DEFAULT.classify(network[-1]) is AddressClass.REJECTED


@pytest.mark.parametrize("address", NEIGHBOURS + PUBLIC)
def test_addresses_outside_every_special_block_are_public(address: str) -> None:
    assert DEFAULT.classify(ip_address(address)) is AddressClass.PUBLIC


@pytest.mark.parametrize("address", OUTSIDE_UNICAST)
def test_what_is_not_allocated_for_unicast_is_refused(address: str) -> None:
    assert DEFAULT.classify(ip_address(address)) is AddressClass.REJECTED


@pytest.mark.parametrize(("inner", "form", "outer"), EMBEDDED)
def test_a_forbidden_address_stays_forbidden_in_any_wrapping(inner: str, form: str, outer: str) -> None:
    """Also where the operator opted into the wrapping's network, which says nothing about what is inside."""
    opted_in = AddressPolicy.of(("::/0",), HTTP_PORTS)

    assert DEFAULT.classify(ip_address(outer)) is AddressClass.REJECTED
    assert opted_in.classify(ip_address(outer)) is AddressClass.REJECTED


def test_a_public_address_is_public_where_its_wrapping_is_reachable() -> None:
    """Behind NAT64 every IPv4 host of the internet looks like this."""
    verdicts = {form: DEFAULT.classify(ip_address(outer)) for form, outer in wrappings("93.184.216.34").items()}

    public = {form for form, verdict in verdicts.items() if verdict is AddressClass.PUBLIC}
    assert public == {"mapped", "nat64", "isatap", "isatap global"}


NETWORKS_AROUND = ("0.0.0.0/0", "::/0", "169.254.0.0/16", "100.64.0.0/10", "fc00::/7", "fe80::/10", "168.63.129.0/24")


@pytest.mark.parametrize("address", METADATA)
def test_a_metadata_service_must_be_named_itself(address: str) -> None:
    """A network around it is not enough, however it was meant."""
    around = AddressPolicy.of(NETWORKS_AROUND, HTTP_PORTS)
    named = AddressPolicy.of((address,), HTTP_PORTS)

    assert DEFAULT.classify(ip_address(address)) is AddressClass.REJECTED
    assert around.classify(ip_address(address)) is AddressClass.REJECTED
    assert named.classify(ip_address(address)) is AddressClass.OPTED_IN


OWN = ("192.0.2.7", "10.1.2.3", "93.184.216.34", "fd00::2", "2606:4700::7")


@pytest.mark.parametrize("address", OWN)
def test_an_own_address_must_be_named_itself(address: str) -> None:
    """Public, private or of documentation: who opens the network around it does not mean this machine's services."""
    own = ip_address(address)
    network = str(ip_network(f"{address}/{24 if own.version == 4 else 64}", strict=False))

    def policy(*networks: str) -> AddressPolicy:
        return replace(AddressPolicy.of(networks, HTTP_PORTS), own=frozenset({own}))

    forms = [own] if own.version == 6 else [own, *map(ip_address, wrappings(address).values())]
    for form in forms:
        assert policy().classify(form) is AddressClass.REJECTED
        assert policy(network).classify(form) is AddressClass.REJECTED
        assert policy("0.0.0.0/0", "::/0").classify(form) is AddressClass.REJECTED
    assert policy(address).classify(own) is AddressClass.OPTED_IN
    assert policy(network).classify(ip_network(network)[9]) is AddressClass.OPTED_IN


@pytest.mark.parametrize(
    ("networks", "address", "admitted"),
    [
        (("192.0.2.0/24",), "192.0.2.7", False),
        (("192.0.2.0/24",), "::ffff:192.0.2.7", False),
        (("192.0.2.7",), "192.0.2.7", True),
        (("192.0.2.7",), "::ffff:192.0.2.7", True),
        (("fd00::/64",), "fd00::2", False),
        (("fd00::2",), "fd00::2", True),
        (("fe80::/10",), "fe80::1%eth0", False),
        (("127.0.0.0/8",), "127.0.0.1", True),
        (("127.0.0.0/8",), "::ffff:127.0.0.1", True),
        (("::1",), "::1", True),
        ((), "127.0.0.1", False),
        ((), "93.184.216.34", False),
    ],
)
def test_a_connection_from_this_machine_to_itself_needs_its_address_named(
    networks: tuple[str, ...], address: str, admitted: bool
) -> None:
    """Loopback addresses excepted, for which a network suffices. The machine's further addresses show only here."""
    policy = AddressPolicy.of(networks, HTTP_PORTS)
    if admitted:
        policy.check_own(ip_address(address))
    else:
        with pytest.raises(NotAllowedError):
            policy.check_own(ip_address(address))


def test_a_zone_hides_no_address() -> None:
    around = AddressPolicy.of(("::/0",), HTTP_PORTS)

    assert around.classify(ip_address("fd00:ec2::254%eth0")) is AddressClass.REJECTED
    assert DEFAULT.classify(ip_address("fe80::1%eth0")) is AddressClass.REJECTED


def test_opting_in_reaches_no_further_than_the_network() -> None:
    policy = AddressPolicy.of(("10.1.0.0/16", "::1/128"), HTTP_PORTS)

    assert policy.classify(ip_address("10.1.255.255")) is AddressClass.OPTED_IN
    assert policy.classify(ip_address("::ffff:10.1.0.1")) is AddressClass.OPTED_IN
    assert policy.classify(ip_address("::1")) is AddressClass.OPTED_IN
    assert policy.classify(ip_address("10.2.0.0")) is AddressClass.REJECTED
    assert policy.classify(ip_address("127.0.0.1")) is AddressClass.REJECTED


@pytest.mark.parametrize(
    ("host", "port", "addresses", "admitted"),
    [
        ("example.com", 80, ["8.8.8.8"], True),
        ("example.com", 443, ["8.8.8.8", "2606:4700::1"], True),
        ("example.com", 8080, ["8.8.8.8"], False),
        ("example.com", 22, ["8.8.8.8"], False),
        ("example.com", 80, ["8.8.8.8", "127.0.0.1"], False),
        ("example.com", 80, ["127.0.0.1", "8.8.8.8"], False),
        ("example.com", 80, ["8.8.8.8", "::1"], False),
        ("intranet", 80, ["8.8.8.8"], False),
        ("inside.example", 8080, ["10.1.0.1"], True),
        ("inside.example", 8080, ["10.1.0.1", "10.1.0.2"], True),
        ("inside.example", 80, ["10.1.0.1", "8.8.8.8"], True),
        ("inside.example", 8080, ["10.1.0.1", "8.8.8.8"], False),
        ("inside.example", 80, ["10.1.0.1", "10.2.0.1"], False),
        ("intranet", 8080, ["10.1.0.1"], True),
        ("intranet", 8080, ["10.1.0.1", "8.8.8.8"], False),
        ("8.8.8.8", 80, ["8.8.8.8"], True),
        ("2606:4700::1", 80, ["2606:4700::1"], True),
    ],
)
def test_all_addresses_of_a_host_decide(host: str, port: int, addresses: list[str], admitted: bool) -> None:
    policy = AddressPolicy.of(("10.1.0.0/16",), HTTP_PORTS)
    found = [ip_address(address) for address in addresses]
    if admitted:
        policy.check(host, port, found)
        return

    with pytest.raises(NotAllowedError) as caught:
        policy.check(host, port, found)
    assert str(caught.value) == str(NotAllowedError())


def test_a_name_that_no_answer_could_admit_is_not_asked_for() -> None:
    """A lookup tells the name to whoever runs the name servers on the way."""
    for host, port in (("intranet", 80), ("example.com", 22)):
        with pytest.raises(NotAllowedError):
            DEFAULT.check_lookup(host, port)
        AddressPolicy.of(("10.0.0.0/8",), HTTP_PORTS).check_lookup(host, port)
    DEFAULT.check_lookup("example.com", 443)


@pytest.mark.parametrize("networks", [("10.0.0.1/8",), ("nonsense",), ("10.0.0.0/33",), ("",)])
def test_a_malformed_network_fails_at_construction(networks: tuple[str, ...]) -> None:
    with pytest.raises(ValueError):
        AddressPolicy.of(networks, HTTP_PORTS)


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_that_does_not_exist_fails_at_construction(port: int) -> None:
    with pytest.raises(ValueError, match="allowed_ports"):
        AddressPolicy.of((), (80, port))


def test_one_text_is_not_several_networks() -> None:
    with pytest.raises(TypeError):
        AddressPolicy.of("10.0.0.0/8", HTTP_PORTS)
