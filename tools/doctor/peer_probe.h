#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/file_descriptor.h"
#include "base/socket.h"
#include "base/thread.h"

namespace unisono::tools {

/// Answers the measurements of other hosts, on a port of the system's choice. A connection that does not begin with the secret is closed.
class ProbeServer {
 public:
  /// Throws Error where the address cannot be listened on.
  ProbeServer(const std::string& address, std::string secret);
  ~ProbeServer();
  ProbeServer(const ProbeServer&) = delete;
  ProbeServer& operator=(const ProbeServer&) = delete;
  std::uint16_t port() const { return port_; }

 private:
  void serve();
  void answer(int connection);

  const std::string secret_;
  base::FileDescriptor listening_, stop_;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  base::FileDescriptor connection_;  ///< guarded by mutex_ where it changes
  bool stopping_ = false;
  base::Thread thread_;
};

/// What a host has measured to another one.
struct Probe {
  enum class Outcome {
    fine,
    no_connection,  ///< `why` says the system's reason
    small_only,     ///< a short message comes back, and a long one does not
    silent,         ///< the connection is accepted, and nothing comes back
  };
  Outcome outcome = Outcome::fine;
  std::string why = {};
  double latency_us = 0;       ///< half of the median round trip of 8 bytes
  double mebibytes_per_s = 0;  ///< from here to there
};

/// Measures to a server that runs elsewhere.
Probe probe(const std::string& address, std::uint16_t port, const std::string& secret, std::chrono::milliseconds patience);

}  // namespace unisono::tools
