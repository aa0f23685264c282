"""Setup: files that a secured broker begins with, and what its clients need.

    certificates    an authority of one's own and what it signs, or a request for a real one
    tls_files       certificates in a folder, and the settings of servers that use them
    security        which files there are, and what is in them
    clients         how clients of each language use them

Nothing here is used by a broker.
"""
