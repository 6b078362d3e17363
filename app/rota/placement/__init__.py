"""Which instance belongs on which server, and why: facts in, plan and reasons out."""
