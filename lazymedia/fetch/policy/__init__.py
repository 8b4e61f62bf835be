"""What may be fetched: URLs, the hosts that they name, and the addresses that these lead to. Nothing here waits."""
