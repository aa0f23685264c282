"""Auth: whether a request may be served, asked in the reactor before it is.

    white_list      addresses from where no account is needed
    user_table      users with their keys and policies, as the control thread gives them
    auth_service    who has them, and what is asked of whom
    admission       what a request wants, and the verdict

What control serves it asks itself, by the gate of rmq/auth. Both say the same of the same request,
as their tests show.
"""
