"""Threads without the interpreter. See native_thread.pxd."""

from libc.string cimport memset, strncpy

from cext.base.status cimport Status

cdef extern from "<signal.h>" nogil:
    ctypedef struct sigset_t:
        pass
    int sigfillset(sigset_t* set)
    enum: SIG_SETMASK
    int pthread_sigmask(int how, const sigset_t* set, sigset_t* old)

cdef extern from "<pthread.h>" nogil:
    ctypedef size_t pthread_t
    int pthread_create(pthread_t* thread, const void* attributes, void* (*body)(void*) noexcept,
                       void* argument)
    int pthread_join(pthread_t thread, void** result)

cdef extern from "<sys/prctl.h>" nogil:
    int prctl(int option, ...)
    enum: PR_SET_NAME


cdef void* enter(void* argument) noexcept nogil:
    cdef NativeThread* thread = <NativeThread*>argument
    prctl(PR_SET_NAME, thread.name)
    thread.body(thread.argument)
    return NULL


cdef int native_thread_start(NativeThread* thread, NativeBody body, void* argument,
                             const char* name, int* error) noexcept nogil:
    cdef sigset_t everything
    cdef sigset_t before
    memset(thread, 0, sizeof(NativeThread))
    thread.body = body
    thread.argument = argument
    strncpy(thread.name, name, 15)
    # A new thread inherits its creator's signal mask, so all signals are blocked while it is made.
    sigfillset(&everything)
    pthread_sigmask(SIG_SETMASK, &everything, &before)
    error[0] = pthread_create(&thread.handle, NULL, &enter, thread)
    pthread_sigmask(SIG_SETMASK, &before, NULL)
    if error[0] != 0:
        return Status.IO_ERROR
    thread.running = True
    return Status.OK


cdef void native_thread_join(NativeThread* thread) noexcept nogil:
    if thread.running:
        pthread_join(thread.handle, NULL)
        thread.running = False
