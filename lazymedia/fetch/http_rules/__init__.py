"""HTTP's rules: messages, ranges (RFC 9110), freshness (RFC 9111), further tries. Nothing here waits."""
