"""Which addresses may be dialled: by default those of the public internet and no others.

`is_global` of the standard library alone does not suffice. It differs between Python versions and calls multicast,
cloud metadata services and private addresses wrapped in IPv6 global. The table here follows IANA's special-purpose
registries (iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry): what is not "globally
reachable" there is rejected, and whatever wraps a rejected address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self

from lazymedia.errors import NotAllowedError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(map(ip_network, texts))


_SPECIAL: Final = _networks(
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4"),
    # Inside 2000::/3, outside of which only the well-known prefix of NAT64 is public.
    *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
)
_UNICAST_V6: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")

# Networks whose last 32 bits are an IPv4 address: NAT64, the same for local use (RFC 8215), IPv4-compatible (RFC 4291),
# IPv4-translated (RFC 2765).
_TAILED: Final = (_NAT64, IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96"))

_METADATA: Final = frozenset(
    map(
        ip_address,
        (
            *("169.254.169.254", "fd00:ec2::254"),  # AWS and most others
            *("169.254.170.2", "169.254.170.23", "fd00:ec2::23"),  # credentials of AWS containers and pods
            "fe80::a9fe:a9fe",  # OpenStack and Hetzner over IPv6
            "fd20:ce::254",  # Google Cloud over IPv6
            "100.100.100.200",  # Alibaba Cloud
            *("192.0.0.192", "fd00:c1::a9fe:a9fe"),  # Oracle Cloud
            *("169.254.42.42", "fd00:42::42"),  # Scaleway
            "169.254.0.23",  # Tencent Cloud
            "fd00:a9fe:a9fe::1",  # Akamai (Linode)
            "168.63.129.16",  # Azure; a public address by every table
        ),
    )
)


class AddressClass(Enum):
    """How the policy classifies one address."""

    PUBLIC = auto()
    OPTED_IN = auto()
    """Inside a network that the operator named."""
    REJECTED = auto()


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Attributes:
    networks: Otherwise rejected networks that the operator allows.
    ports: Ports of every host that is not wholly inside those networks.
    own: Addresses of this machine, loopback ones excepted. Rejected, unless named one by one.
    """

    networks: tuple[Network, ...] = ()
    ports: frozenset[int] = frozenset({80, 443})
    own: frozenset[Address] = frozenset()

    @classmethod
    def of(cls, allowed_networks: Iterable[str], allowed_ports: Iterable[int]) -> Self:
        """A policy out of an operator's settings.

        Raises:
            TypeError: One text instead of several.
            ValueError: Not a network in CIDR form, or not a port. The operator's fault.
        """
        if isinstance(allowed_networks, str):
            raise TypeError("allowed_networks takes several networks, not one text")
        ports = frozenset(allowed_ports)
        if not all(0 < port < 1 << 16 for port in ports):
            raise ValueError("allowed_ports: a port is a number between 1 and 65535")
        return cls(tuple(map(ip_network, allowed_networks)), ports)

    def classify(self, address: Address) -> AddressClass:
        """The class of one address, with every address that it wraps.

        Metadata services and this machine's own addresses are opted into as networks of one address, never by a wider
        network around them: a network is opened for its media servers, and not for these.
        """
        address = unwrapped(address)
        inside = _wrapped(address) if isinstance(address, IPv6Address) else ()
        if any(self.classify(inner) is AddressClass.REJECTED for inner in inside):
            return AddressClass.REJECTED
        if address in _METADATA or address in self.own:
            return AddressClass.OPTED_IN if self._names(address) else AddressClass.REJECTED
        if any(address in network for network in self.networks):
            return AddressClass.OPTED_IN
        return AddressClass.PUBLIC if _is_public(address) else AddressClass.REJECTED

    def check_own(self, address: Address) -> None:
        """Do nothing where a connection may be used whose two ends are one address: this machine has dialled itself.

        Raises:
            NotAllowedError: It is neither named by itself nor a loopback address, for which a network suffices.
        """
        address = unwrapped(address)
        if not self._names(address) and not (address.is_loopback and self.classify(address) is AddressClass.OPTED_IN):
            raise NotAllowedError

    def _names(self, address: Address) -> bool:
        return ip_network(address) in self.networks

    def check(self, host: str, port: int, addresses: Iterable[Address]) -> None:
        """Do nothing where a host may be dialled at each of these addresses.

        Raises:
            NotAllowedError: One of them is rejected; or the port is, or the host has no domain, and not all addresses
                are inside the networks that the operator named.
        """
        classes = {self.classify(address) for address in addresses}
        if AddressClass.REJECTED in classes:
            raise NotAllowedError
        if classes != {AddressClass.OPTED_IN} and not self._is_ordinary(host, port):
            raise NotAllowedError

    def check_lookup(self, host: str, port: int) -> None:
        """Do nothing where a name may be looked up, because some answer would be allowed.

        Raises:
            NotAllowedError: None could.
        """
        if not self.networks and not self._is_ordinary(host, port):
            raise NotAllowedError

    def _is_ordinary(self, host: str, port: int) -> bool:
        # A name without a dot is completed from the machine's own search list, into the network it stands in.
        return port in self.ports and ("." in host or ":" in host)


def unwrapped(address: Address) -> Address:
    """What the kernel dials: the IPv4 address in a mapped one, and no zone, which makes an address unequal to any."""
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or IPv6Address(int(address))


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _UNICAST_V6 and address not in _NAT64:
        return False
    return address.is_global and not any(address in network for network in _SPECIAL)


def _wrapped(address: IPv6Address) -> Iterator[IPv4Address]:
    """IPv4 addresses that a gateway or the kernel would take out of this one."""
    value = int(address)
    tail = IPv4Address(value & 0xFFFFFFFF)
    is_isatap = (value >> 32) & 0xFDFFFFFF == 0x00005EFE  # RFC 5214: the interface identifier is [02]00:5efe:a.b.c.d
    if is_isatap or (value != 1 and any(address in network for network in _TAILED)):
        yield tail
    if address.sixtofour is not None:
        yield address.sixtofour
    yield from address.teredo or ()


def literal_address(host: str) -> Address | None:
    """The address that a URL's host is, where it is no name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


__all__ = ["Address", "AddressClass", "AddressPolicy", "literal_address", "unwrapped"]
