#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace unisono::ground {

/// A thread that leaves signals to the others of the process.
template <class Body>
std::thread start_quietly(Body body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::move(body));
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace unisono::ground
