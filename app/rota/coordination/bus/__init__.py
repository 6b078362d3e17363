"""The event bus: what one process of the hub has to say to the others at once, and may fail to."""
