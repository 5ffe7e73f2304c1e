#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/socket.h"

namespace unisono::launcher {

/// The processors this process may run on, ascending.
std::vector<int> allowed_cpus();

/// What each of so many ranks may use for threads of its own: its share of the processors, at least 1.
int openmp_share(int ranks);

/// 32 hexadecimal digits.
std::string random_id();

/// A TCP port that stays free for the job: bound, never listening. Whoever listens on it with SO_REUSEADDR (torch does) gets it; nobody is handed
/// it by chance.
class PortReservation {
 public:
  /// On loopback. `port` 0: any. StartFailed, naming the port, where it is in use.
  explicit PortReservation(std::uint16_t port);
  /// StartFailed, naming the address, where it is in use or none of this host's. Port 0: any.
  explicit PortReservation(const base::SocketAddress& address);
  /// The port if it is one and free at that address, else any.
  static PortReservation near(const base::SocketAddress& address, int port);
  std::uint16_t port() const noexcept { return port_; }

 private:
  base::FileDescriptor socket_;
  std::uint16_t port_;
};

/// Sees to it that descriptors 0, 1 and 2 are open, so that no pipe of ours becomes one of them.
void open_standard_descriptors();

/// Raises the limit of open descriptors for its lifetime where `needed` exceeds it and the hard limit allows; StartFailed where it does not.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(std::size_t needed);
  ~DescriptorLimit();
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  /// What a child has to get back; 0 where nothing was changed.
  std::size_t original() const noexcept { return original_; }

 private:
  std::size_t original_ = 0;
};

}  // namespace unisono::launcher
