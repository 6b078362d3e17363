"""Mail: made, sent at once, and queued where that fails."""
