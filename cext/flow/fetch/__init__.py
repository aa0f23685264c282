"""Fetch: reads of the disk for requests, and requests that wait for them.

    fetch_service       the service
    disk_fetch          one read, its buffer, and what is called when it is done
    parked_requests     requests that wait for one stored record
    readahead           records that a pass through a queue needs next
    log_view            a record that is in memory, parsed where it lies

The threads that read are the disk readers of cext/store.
"""
