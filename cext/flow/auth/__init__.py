"""Auth: whether a request may be served; the reactor asks before it serves one.

    white_list      addresses from which no account is needed
    user_table      users with their keys and policies, as the control thread gives them
    auth_service    the users of this broker, and which requests must be signed
    admission       what a request wants, and the verdict

Requests that control serves are judged there, by the gate of rmq/auth. Both come to the same
verdict on the same request, as their tests show.
"""
