"""Base: files, directories, clocks and logs that everything in Python builds on."""
