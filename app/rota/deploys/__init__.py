"""Moving an app to a release, step by step."""
