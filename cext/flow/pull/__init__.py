"""Pull: from a pull request to its answer.

    pull_service        the service; jobs of other kinds take the same way
    pull_admission      a request is checked and becomes a job
    pull_job            the job and its states
    pull_turn           the jobs of a turn are answered, with no connection preferred
    queue_entry_scan    which entries of the queue pass the filter, and their records
    pull_batch          the messages of one answer, gathered
    pull_answer         the reply, and the end of the job
    held_pulls          long polling: jobs that wait on their queue
    function_pull       pulls whose filter is a Python function of the owner

Nothing here waits for the disk: what is not in memory becomes a fetch.
"""
