"""Live pages: what is told to browsers, how it is written, and what one that was away has missed."""
