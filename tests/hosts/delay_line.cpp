// A switch between hosts that are network namespaces: it hands each frame on a fixed time after its arrival.
//
//   delay_line MICROSECONDS DEVICE...
//
// Linux delays packets by the queueing discipline netem, which many kernels lack. This program reads the frames of each device by a packet socket,
// keeps them for the time, and writes them to the device behind which their destination lies. Frames larger than the link's packets pass as they are,
// so that a thousand of them a second take a few per cent of a processor. What shapes a device's rate (tbf) applies to what is written there. It runs
// until its standard input ends. It writes "ready" when it reads all devices.

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <arpa/inet.h>

#include "base/file_descriptor.h"

namespace unisono::testing {
namespace {

using Clock = std::chrono::steady_clock;
using Address = std::array<std::byte, ETH_ALEN>;

constexpr std::size_t cutting_header = 10;  // struct virtio_net_hdr, whose header is none of C++
constexpr std::size_t longest_frame = cutting_header + sizeof(ether_header) + 65536;
constexpr std::size_t everybody = ~std::size_t{0};

void check(int result, const std::string& what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
}

void set(const base::FileDescriptor& socket, int level, int option, int value, const std::string& what) {
  check(::setsockopt(socket.get(), level, option, &value, sizeof value), what);
}

base::FileDescriptor open_device(const std::string& name) {
  base::FileDescriptor socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  check(socket.get(), "a packet socket");
  // Frames that the sender's kernel has not cut into packets yet come and go whole, with a header that says how they are to be cut.
  set(socket, SOL_PACKET, PACKET_VNET_HDR, 1, "PACKET_VNET_HDR");
  set(socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING");
  constexpr int room = 256 << 20;  // for what a shaped link delays as well
  set(socket, SOL_SOCKET, SO_RCVBUFFORCE, room, "SO_RCVBUFFORCE");
  set(socket, SOL_SOCKET, SO_SNDBUFFORCE, room, "SO_SNDBUFFORCE");
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(name.c_str()));
  if (address.sll_ifindex == 0) throw std::system_error(errno, std::generic_category(), name);
  check(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), name);
  return socket;
}

struct Frame {
  Clock::time_point due;
  std::size_t source;
  std::size_t target;
  std::vector<std::byte> bytes;
};

class DelayLine {
 public:
  DelayLine(std::chrono::microseconds delay, const std::vector<std::string>& devices) : delay_(delay) {
    for (const std::string& name : devices) ports_.push_back(open_device(name));
  }

  void run() {
    std::vector<pollfd> entries;
    for (const base::FileDescriptor& port : ports_) entries.push_back({.fd = port.get(), .events = POLLIN, .revents = 0});
    entries.push_back({.fd = STDIN_FILENO, .events = POLLIN, .revents = 0});
    while (entries.back().revents == 0) {
      wait(entries);
      for (std::size_t port = 0; port < ports_.size(); ++port)
        if (entries[port].revents != 0) take(port);
      hand_on();
    }
  }

 private:
  void wait(std::vector<pollfd>& entries) const {
    timespec time{};
    if (!frames_.empty()) {
      const auto left = std::max<std::chrono::nanoseconds>(frames_.front().due - Clock::now(), std::chrono::nanoseconds(0));
      time.tv_sec = left.count() / 1'000'000'000;
      time.tv_nsec = left.count() % 1'000'000'000;
    }
    const int ready = ::ppoll(entries.data(), entries.size(), frames_.empty() ? nullptr : &time, nullptr);
    if (ready < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "ppoll");
  }

  void take(std::size_t port) {
    for (;;) {
      std::vector<std::byte> bytes = buffer();
      const ssize_t got = ::recv(ports_[port].get(), bytes.data(), longest_frame, 0);
      if (got < static_cast<ssize_t>(cutting_header + sizeof(ether_header))) {
        spare_.push_back(std::move(bytes));
        if (got < 0) return;
        continue;
      }
      bytes.resize(static_cast<std::size_t>(got));
      Address target, source;
      std::memcpy(target.data(), bytes.data() + cutting_header, sizeof target);
      std::memcpy(source.data(), bytes.data() + cutting_header + sizeof target, sizeof source);
      behind_[source] = port;
      const auto known = behind_.find(target);
      frames_.push_back({Clock::now() + delay_, port, known == behind_.end() ? everybody : known->second, std::move(bytes)});
    }
  }

  void hand_on() {
    while (!frames_.empty() && frames_.front().due <= Clock::now()) {
      Frame frame = std::move(frames_.front());
      frames_.pop_front();
      for (std::size_t port = 0; port < ports_.size(); ++port) {
        if (port == frame.source || (frame.target != everybody && frame.target != port)) continue;
        // A frame that the device does not take is lost, as in a switch whose queue is full.
        [[maybe_unused]] const ssize_t sent = ::send(ports_[port].get(), frame.bytes.data(), frame.bytes.size(), 0);
      }
      spare_.push_back(std::move(frame.bytes));
    }
  }

  std::vector<std::byte> buffer() {
    std::vector<std::byte> bytes;
    if (!spare_.empty()) {
      bytes = std::move(spare_.back());
      spare_.pop_back();
    }
    bytes.resize(longest_frame);
    return bytes;
  }

  std::chrono::microseconds delay_;
  std::vector<base::FileDescriptor> ports_;
  std::map<Address, std::size_t> behind_;
  std::deque<Frame> frames_;  // in the order of their times, since all wait equally long
  std::vector<std::vector<std::byte>> spare_;
};

int run(const std::vector<std::string>& words) {
  if (words.size() < 2) throw std::invalid_argument("usage: delay_line MICROSECONDS DEVICE...");
  DelayLine line(std::chrono::microseconds(std::stol(words[0])), {words.begin() + 1, words.end()});
  // Ranks that spin on every processor must not be what delays the frames.
  const sched_param first{.sched_priority = 1};
  if (::sched_setscheduler(0, SCHED_FIFO, &first) != 0) check(::prctl(PR_SET_TIMERSLACK, 1), "PR_SET_TIMERSLACK");
  std::cout << "ready" << std::endl;
  line.run();
  return 0;
}

}  // namespace
}  // namespace unisono::testing

int main(int argc, char** argv) {
  try {
    return unisono::testing::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "delay_line: " << error.what() << std::endl;
    return 1;
  }
}
