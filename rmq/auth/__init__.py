"""auth: whom a request comes from, and what that user may do. RocketMQ's ACL 2.0.

    request -> signature      made with the user's password (rmq/format/signature.py), or refused
            -> permissions    which resources it touches, and by which actions
            -> authorization  each of them is checked against the user's policies

Modules, lowest first:

    resource         what a policy speaks of: Topic:orders*
    policy           entries of a policy, and which of several that match counts
    packed_policies  policies in bytes, for the reactor
    user             an account
    white_list       addresses that ACL 1.0 lets in without an account
    fixed_accounts   accounts that files give, which no request changes
    accounts         users and policies by name, and the rules by which they change
    account_texts    the JSON of each account, so that unchanged ones are not parsed again
    account_file     rmqAccounts.json, which the servers of a machine may share
    account_store    the accounts of a process, in step with the file
    authorization    whether the policies allow a request
    permissions      what each request code needs, a row for each
    plain_acl        the files of ACL 1.0 as accounts
    audit            who was allowed what
    audit_tail       the newest lines of the audit log, for Super users
    gate             all these checks, before a request is served
    admin            the requests that make users and ACLs
    options          what a server's settings say of accounts
    guard            accounts, gate and signature of one server

Nothing here knows sockets, or which server asks: brokers, name servers and controllers use it
alike. Names, order of the checks and texts of refusals are RocketMQ's (module auth, 5.5.0).
"""
