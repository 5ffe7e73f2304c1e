#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/socket.h"

namespace unisono::launcher {

/// Returns the processors that this process may run on, ascending.
std::vector<int> allowed_cpus();

/// Returns 32 hexadecimal digits.
std::string random_id();

inline constexpr int highest_port = 65535;

/// Keeps a TCP port free for the job: the port is bound, and never listens. A process that listens on it with SO_REUSEADDR (torch does) gets it; the
/// kernel gives it to no other process by chance.
class PortReservation {
 public:
  /// Reserves a port on loopback. Port 0 stands for any. Throws StartFailed, naming the port, where it is in use.
  explicit PortReservation(std::uint16_t port);
  /// Throws StartFailed, naming the address, where it is in use or does not belong to this host. Port 0 stands for any.
  explicit PortReservation(const base::SocketAddress& address);
  /// Reserves `port` if it is valid and free at that address, else any.
  static PortReservation near(const base::SocketAddress& address, int port);
  std::uint16_t port() const noexcept { return port_; }

 private:
  base::FileDescriptor socket_;
  std::uint16_t port_;
};

/// Opens descriptors 0, 1 and 2 where they are closed, so that no pipe of the launcher becomes one of them.
void open_standard_descriptors();

/// Returns the descriptors that are open now.
std::vector<int> open_descriptors();

/// Raises the limit of open descriptors for its lifetime where `needed` exceeds it and the hard limit allows. Throws StartFailed where it does not.
/// Several that overlap need the sum, and the last one restores what was before.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(std::size_t needed);
  ~DescriptorLimit();
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  /// Returns the limit that a child has to restore; 0 where nothing was changed.
  std::size_t original() const noexcept { return original_; }

 private:
  std::size_t needed_;
  std::size_t original_ = 0;
};

}  // namespace unisono::launcher
