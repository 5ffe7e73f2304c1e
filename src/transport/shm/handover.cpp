#include "transport/shm/handover.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file_descriptor.h"
#include "base/files.h"
#include "base/host.h"
#include "base/log.h"
#include "base/socket.h"
#include "store/authentication.h"
#include "base/switches.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

using base::Deadline;
using base::FileDescriptor;

constexpr std::chrono::milliseconds look_period{100};  ///< between two looks whether a rank has ended
/// How long rank 0 may be gone before its end is known, and the time between two looks for it.
constexpr std::chrono::milliseconds time_of_the_reason{1000}, pause_before_the_reason{10};
constexpr std::size_t longest_socket_name = 90;  ///< an abstract address holds 107 bytes

// Room for connections of strangers of the same user, beside those of the ranks.
constexpr int spare_backlog = 8;
constexpr std::size_t most_foreign_connections = 64;
struct Hello {
  std::array<char, 32> secret{};
  std::int32_t rank = -1;
};

[[noreturn]] void refuse(const std::string& what, int error) { throw BackendUnavailable(fmt::format("{}: {}", what, base::error_text(error))); }

int name_of(const RankNames& names, int rank) { return names.empty() ? rank : names[static_cast<std::size_t>(rank)]; }

SharedMemory map(const FileDescriptor& memory, std::size_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (address == MAP_FAILED) refuse("cannot map " + std::to_string(bytes) + " bytes of shared memory", errno);
  // A child of fork has no part in the group; without the mapping it cannot disturb it.
  ::madvise(address, bytes, MADV_DONTFORK);
  return {{static_cast<std::byte*>(address), [bytes](std::byte* p) { ::munmap(p, bytes); }}, bytes};
}

FileDescriptor make_memory(std::size_t bytes) {
  base::Opened memory = base::make_memory_file("unisono", bytes);
  if (!memory.fd) {
    throw BackendUnavailable(fmt::format("the system refuses {} bytes of shared memory (memfd_create): {}", bytes, base::error_text(memory.error)),
                             {.hint = base::remedy_of_refusal("memfd_create", memory.error)});
  }
  return std::move(memory.fd);
}

/// A message of one byte with room for one descriptor.
struct DescriptorMessage {
  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{.msg_name = nullptr,
                 .msg_namelen = 0,
                 .msg_iov = &data,
                 .msg_iovlen = 1,
                 .msg_control = control,
                 .msg_controllen = sizeof control,
                 .msg_flags = 0};

  DescriptorMessage() = default;
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;
};

/// Returns 0, or the errno of the failed call.
int send_descriptor(int socket, int descriptor) {
  DescriptorMessage room;
  msghdr& message = room.message;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

/// Returns the descriptor, or an errno; 0 where the other side sent none.
base::Opened receive_descriptor(int socket) {
  DescriptorMessage room;
  msghdr& message = room.message;
  ssize_t n = 0;
  do {
    n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return {.fd = {}, .error = errno};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  // The kernel leaves out a descriptor that this process cannot take over; the flag is the only sign.
  if (n > 0 && (message.msg_flags & MSG_CTRUNC) != 0) return {.fd = {}, .error = EMFILE};
  if (n == 0 || header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return {.fd = FileDescriptor(descriptor), .error = 0};
}

/// Rank 0's side: it accepts connections and gives the memory to the ranks among them.
class Giver {
 public:
  Giver(const FileDescriptor& memory, int ranks, const RankNames& names) : memory_(memory), ranks_(ranks), names_(names) {
    store::fresh_name().copy(expected_.secret.data(), expected_.secret.size());
    name_ = "unisono-" + store::fresh_name();
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto address = base::SocketAddress::abstract_unix(name_);
    if (!listener_ || ::bind(listener_.get(), address.data(), address.size()) != 0 || ::listen(listener_.get(), ranks + spare_backlog) != 0) {
      refuse("cannot open a local socket to hand shared memory over", errno);
    }
  }

  /// Returns the text that the other ranks find in the store.
  std::string offer() const { return name_ + " " + std::string(expected_.secret.data(), expected_.secret.size()); }

  /// Gives the memory to all ranks. `look` throws where it is known that a rank will not come.
  void serve_all(const Deadline& deadline, const std::function<void()>& look) {
    auto next_look = base::Clock::now() + look_period;
    while (static_cast<int>(served_.size()) < ranks_ - 1) {
      if (deadline.passed()) give_up(deadline);
      base::check_interruption();
      if (const auto now = base::Clock::now(); now >= next_look) {
        next_look = now + look_period;
        without_means_ = 0;  // descriptors may be available again
        look();
      }
      // A listener whose connections cannot be accepted stays readable, so it is left out.
      std::vector<pollfd> entries{{without_means_ == 0 ? listener_.get() : -1, POLLIN, 0}};
      for (const auto& peer : greeted_) entries.push_back({peer.get(), POLLIN, 0});
      const int ready = ::poll(entries.data(), entries.size(), deadline.poll_timeout(static_cast<int>(look_period.count())));
      if (ready < 0 && errno != EINTR) refuse("poll", errno);
      if (ready <= 0) continue;
      for (std::size_t i = entries.size() - 1; i > 0; --i) {
        if (entries[i].revents != 0) hear(i - 1);
      }
      if ((entries[0].revents & POLLIN) != 0) accept();
    }
  }

 private:
  void accept() {
    FileDescriptor peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer) {
      const int error = errno;
      if (error == EAGAIN || error == EINTR || error == ECONNABORTED) return;
      if (!std::exchange(last_refusal_, error)) {
        base::warn(fmt::format("{} cannot take connections to hand shared memory over: {}", who(), base::error_text(error)));
      }
      without_means_ = error;
      return;
    }
    last_refusal_ = 0;
    if (base::peer_is_same_user(peer.get()) && greeted_.size() < static_cast<std::size_t>(ranks_) + most_foreign_connections)
      greeted_.push_back(std::move(peer));
  }

  void hear(std::size_t i) {
    Hello hello;
    const ssize_t n = ::recv(greeted_[i].get(), &hello, sizeof hello, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    const FileDescriptor peer = std::move(greeted_[i]);
    greeted_.erase(greeted_.begin() + static_cast<std::ptrdiff_t>(i));
    if (n != sizeof hello || hello.secret != expected_.secret || hello.rank < 1 || hello.rank >= ranks_) return;
    const int error = send_descriptor(peer.get(), memory_.get());
    // A peer that is gone by now is noticed elsewhere.
    if (error != 0 && error != EPIPE && error != ECONNRESET) {
      refuse(fmt::format("{} cannot hand shared memory to rank {}", who(), name_of(names_, hello.rank)), error);
    }
    served_.insert(hello.rank);
  }

  [[noreturn]] void give_up(const Deadline& deadline) const {
    if (last_refusal_ != 0) refuse(fmt::format("{} cannot take connections to hand shared memory over", who()), last_refusal_);
    std::vector<int> missing;
    for (int r = 1; r < ranks_; ++r) {
      if (!served_.contains(r)) missing.push_back(name_of(names_, r));
    }
    throw Timeout(fmt::format("shared memory was not fetched by rank {} within {} ms", fmt::join(missing, ", "), deadline.timeout().count()), {},
                  missing);
  }

  std::string who() const { return fmt::format("rank {}", name_of(names_, 0)); }

  const FileDescriptor& memory_;
  const int ranks_;
  const RankNames& names_;
  Hello expected_;
  std::string name_;
  FileDescriptor listener_;
  std::set<int> served_;
  std::vector<FileDescriptor> greeted_;  // connected, without a hello so far; none of them holds up the others
  int without_means_ = 0;                // the errno of an accept that failed, until it is tried again
  int last_refusal_ = 0;                 // the errno of an accept that failed, until one succeeds
};

SharedMemory hand_out(Store& store, const std::string& key, int ranks, std::size_t bytes, const Deadline& deadline, const RankNames& names) {
  const FileDescriptor memory = make_memory(bytes);
  SharedMemory mapped = map(memory, bytes);
  if (ranks == 1) return mapped;
  Giver giver(memory, ranks, names);
  store.set(key, giver.offer());
  // A watched store throws here if one of the ranks will not come.
  giver.serve_all(deadline, [&] { static_cast<void>(store.try_get(key)); });
  store.erase(key);
  return mapped;
}

/// Rank 0 has gone. The reason is known a moment later, by whoever has started it: a watched store throws it then.
[[noreturn]] void throw_gone(Store& store, const std::string& key, int giver, const Deadline& deadline) {
  const Deadline reason(std::min(deadline.left(), time_of_the_reason));
  do {
    base::check_interruption();
    static_cast<void>(store.try_get(key));
    ::poll(nullptr, 0, reason.poll_timeout(static_cast<int>(pause_before_the_reason.count())));
  } while (!reason.passed());
  throw PeerFailed(fmt::format("rank {} gave up before it had handed over its shared memory", giver), {.culprit = giver});
}

/// Returns a connection to rank 0, none where it has gone. After an interruption by a signal the call is repeated.
FileDescriptor connect_to(const std::string& name, const std::string& giver) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) refuse("there is no socket to fetch shared memory with", errno);
  const auto address = base::SocketAddress::abstract_unix(name);
  while (::connect(socket.get(), address.data(), address.size()) != 0) {
    if (errno == ECONNREFUSED) return {};
    if (errno != EINTR) refuse(fmt::format("cannot reach {} to fetch shared memory", giver), errno);
  }
  return socket;
}

SharedMemory fetch(Store& store, const std::string& key, int rank, std::size_t bytes, const Deadline& deadline, const RankNames& names) {
  const std::string giver = fmt::format("rank {}", name_of(names, 0));
  const std::string where = store.get(key, deadline.left());
  const auto space = where.find(' ');
  Hello hello{.rank = rank};
  if (space == std::string::npos || space > longest_socket_name || where.size() - space - 1 != hello.secret.size())
    throw ProtocolError("a malformed entry " + key + " in the store");
  where.copy(hello.secret.data(), hello.secret.size(), space + 1);
  const FileDescriptor socket = connect_to(where.substr(0, space), giver);
  if (!socket) throw_gone(store, key, name_of(names, 0), deadline);
  if (!base::peer_is_same_user(socket.get())) throw ProtocolError("another user offers the shared memory");
  ssize_t sent = 0;
  do {
    sent = ::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  while (sent == sizeof hello && !base::wait_for(socket.get(), POLLIN, Deadline(std::min(deadline.left(), look_period)))) {
    base::check_interruption();
    static_cast<void>(store.try_get(key));  // which throws if the reason of the delay is known
    if (deadline.passed()) throw Timeout(fmt::format("{} did not hand over its shared memory", giver), {}, {name_of(names, 0)});
  }
  const base::Opened memory = receive_descriptor(socket.get());
  if (memory.fd) return map(memory.fd, bytes);
  if (memory.error != 0 && memory.error != ECONNRESET) {
    refuse(fmt::format("rank {} cannot take over the shared memory that {} hands it", name_of(names, rank), giver), memory.error);
  }
  throw_gone(store, key, name_of(names, 0), deadline);
}

}  // namespace

SharedMemory share_memory(Store& store, const std::string& key, int rank, int ranks, std::size_t bytes, const base::Deadline& deadline,
                          const RankNames& names) {
  return rank == 0 ? hand_out(store, key, ranks, bytes, deadline, names) : fetch(store, key, rank, bytes, deadline, names);
}

}  // namespace unisono::transport
