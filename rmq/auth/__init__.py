"""auth: who a request comes from, and what that user may do. RocketMQ's ACL 2.0.

    request -> signature      made with the user's password (rmq/format/signature.py), or refused
            -> permissions    which resources it touches, and by which actions
            -> authorization  each of them against the user's policies

Modules, lowest first:

    resource         Topic:orders*
    policy           entries, and which of those that match counts
    packed           policies in bytes, for the reactor
    user             an account
    white_list       addresses that ACL 1.0 lets in without an account
    fixed_accounts   those that files give
    accounts         users and policies by name, and the rules by which they change
    account_texts    the JSON of each, so that what has not changed is not read again
    account_file     rmqAccounts.json, which the servers of a machine may share
    account_store    the accounts of a process, in step with the file
    authorization    the verdict
    permissions      a row for each request code
    plain_acl        the files of ACL 1.0 as accounts
    audit            who was allowed what
    audit_tail       the newest lines of it, for who may ask for them
    gate             all of it, before a request is served
    admin            the requests that make users and ACLs
    options          what a server's settings say
    guard            all of it for one server

Nothing here knows sockets, or who asks: brokers, name servers and controllers use it alike. Names,
order of the checks and texts of refusals are RocketMQ's (module auth, 5.5.0).
"""
