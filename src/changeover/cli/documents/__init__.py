"""Teams that are written in files: Python modules and YAML."""
