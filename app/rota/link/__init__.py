"""The only sender of orders to servers."""
