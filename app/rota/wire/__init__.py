"""The messages between the hub and its servers: what they say, how they are signed, who may send them."""
