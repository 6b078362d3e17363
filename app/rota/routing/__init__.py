"""Which name leads to which instances, and the proxy that is told so."""
