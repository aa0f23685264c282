"""Console: the web console: a browser shows what brokers are doing, and makes confirmed changes.

    server              listens, and serves until it is told to stop
    app                 the application: pages behind the gate
    gate                every request goes through here: names, login, read-only, forms, headers
    csrf                whether a request comes from a page of this console
    journal             a log of who did what with the console
    login, sessions     who is logged in in a browser, and with which account brokers are asked
    console             what all requests share
    brokers             questions to brokers, asked in threads, each with an account
    answers             kept for a moment, so that brokers are not asked the same again
    survey              every broker at one moment, with its topics, groups and clients
    history             how far groups were behind in the last minutes
    routes              every page and every change, by path
    pages               one subject a file
    change              a change is described first, and done when the user confirms it
    pending_changes     those that wait for that
    forms               the fields of a page's form, and why a value is not accepted
    page                makes answers from templates
    paging, section     long lists; parts of a page that may be refused
    body_view           a message's body as text, JSON or bytes
    spark_line          a history as a small line
    trace_picture       what became of a message, as a time line
    errors              what a page says when brokers refuse or do not answer
    settings            which servers the console asks, where it listens, who may do what

The console asks brokers as the command line does, by the blocking client (rmq/client/blocking); the
questions are in rmq/operations. Templates and the files that browsers load are in the folders
templates and static; htmx, which draws parts of a page anew, is in static with its licence.
"""
