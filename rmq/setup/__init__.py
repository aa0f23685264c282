"""Setup: files with which a secured broker begins, and what its clients need.

    certificates    an authority and the certificates it signs, or a request to a real authority
    tls_files       certificates in a folder, and the settings of servers that use them
    security        which files there are, and what is in them
    clients         how clients of each language use these files

No broker uses these modules.
"""
