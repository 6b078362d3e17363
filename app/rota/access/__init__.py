"""Who may do what: scopes, and those who hold them."""
