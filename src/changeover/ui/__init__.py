"""The web UI: page shells, icons, styles and scripts. Its pages read and write only through the public API."""
