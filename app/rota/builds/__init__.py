"""From the source of an app to the artifact that runs."""
