"""The hub's background tasks. `table` names every one; nothing starts a task elsewhere."""
