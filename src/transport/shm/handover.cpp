#include "transport/shm/handover.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <vector>

#include "ground/file_descriptor.h"
#include "ground/log.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

using ground::Deadline;
using ground::FileDescriptor;

constexpr int look_period_ms = 100;
constexpr std::size_t secret_bytes = 16;
struct Hello {
  std::array<unsigned char, secret_bytes> secret{};
  std::int32_t rank = -1;
};

[[noreturn]] void refuse(const std::string& what, int error) { throw BackendUnavailable(what + ": " + std::strerror(error)); }

std::string hex(const unsigned char* bytes, std::size_t size) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

std::array<unsigned char, secret_bytes> unhex(std::string_view text) {
  std::array<unsigned char, secret_bytes> bytes{};
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  if (text.size() != 2 * bytes.size()) throw ProtocolError("a malformed secret in the store");
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>((digit(text[2 * i]) << 4) | (digit(text[2 * i + 1]) & 15U));
  return bytes;
}

SharedMemory map(const FileDescriptor& memory, std::size_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (address == MAP_FAILED) refuse("cannot map " + std::to_string(bytes) + " bytes of shared memory", errno);
  // A child of fork has no business in the group; without the mapping it cannot disturb it.
  ::madvise(address, bytes, MADV_DONTFORK);
  return {{static_cast<std::byte*>(address), [bytes](std::byte* p) { ::munmap(p, bytes); }}, bytes};
}

FileDescriptor make_memory(std::size_t bytes) {
  FileDescriptor memory(::memfd_create("unisono", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) refuse("the system refuses shared memory (memfd_create)", errno);
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) refuse("cannot size " + std::to_string(bytes) + " bytes of shared memory", errno);
  // Nobody can shrink it under a reader.
  ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return memory;
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

void send_descriptor(int socket, int descriptor) {
  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  // A peer that is gone by now will be missed by everybody soon enough.
  [[maybe_unused]] const auto sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

FileDescriptor receive_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) <= 0) return FileDescriptor();
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return FileDescriptor();
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return FileDescriptor(descriptor);
}

sockaddr_un abstract_address(std::string_view name, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // the leading zero byte: no file
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

bool wait_readable(int socket, const Deadline& deadline) {
  for (;;) {
    pollfd entry{socket, POLLIN, 0};
    const int ready = ::poll(&entry, 1, deadline.poll_timeout());
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

std::vector<int> missing_of(const std::set<int>& served, int ranks) {
  std::vector<int> missing;
  for (int r = 1; r < ranks; ++r) {
    if (!served.contains(r)) missing.push_back(r);
  }
  return missing;
}

SharedMemory hand_out(Store& store, const std::string& key, int ranks, std::size_t bytes, const Deadline& deadline) {
  FileDescriptor memory = make_memory(bytes);
  SharedMemory mapped = map(memory, bytes);
  if (ranks == 1) return mapped;
  Hello expected;
  std::array<unsigned char, 16> name_bytes{};
  if (::getrandom(expected.secret.data(), secret_bytes, 0) != secret_bytes || ::getrandom(name_bytes.data(), 16, 0) != 16) {
    refuse("no random numbers", errno);
  }
  const std::string name = "unisono-" + hex(name_bytes.data(), name_bytes.size());
  FileDescriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  socklen_t size = 0;
  const sockaddr_un address = abstract_address(name, size);
  if (!listener || ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(listener.get(), ranks + 8) != 0) {
    refuse("cannot open a local socket to hand shared memory over", errno);
  }
  store.set(key, name + " " + hex(expected.secret.data(), secret_bytes));

  std::set<int> served;
  std::vector<FileDescriptor> greeted;  // connected, their hello not here yet: nobody of them holds up the others
  while (static_cast<int>(served.size()) < ranks - 1) {
    std::vector<pollfd> entries{{listener.get(), POLLIN, 0}};
    for (const auto& peer : greeted) entries.push_back({peer.get(), POLLIN, 0});
    const int ready = ::poll(entries.data(), entries.size(), deadline.poll_timeout(look_period_ms));
    if (ready == 0 && deadline.passed()) {
      const auto missing = missing_of(served, ranks);
      std::string names;
      for (const int r : missing) names += (names.empty() ? "" : ", ") + std::to_string(r);
      throw Timeout("shared memory was not fetched by local rank " + names + " within " + std::to_string(deadline.timeout().count()) + " ms", {},
                    missing);
    }
    if (ready < 0 && errno != EINTR) refuse("poll", errno);
    if (ready <= 0) {
      static_cast<void>(store.try_get(key));  // a store that is watched throws here if one of them will not come
      continue;
    }
    for (std::size_t i = entries.size() - 1; i > 0; --i) {
      if (entries[i].revents == 0) continue;
      Hello hello;
      FileDescriptor peer = std::move(greeted[i - 1]);
      greeted.erase(greeted.begin() + static_cast<std::ptrdiff_t>(i - 1));
      if (::recv(peer.get(), &hello, sizeof hello, MSG_DONTWAIT) != sizeof hello) continue;
      if (hello.secret != expected.secret || hello.rank < 1 || hello.rank >= ranks) continue;
      send_descriptor(peer.get(), memory.get());
      served.insert(hello.rank);
    }
    if ((entries[0].revents & POLLIN) != 0) {
      FileDescriptor peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (peer && same_user(peer.get()) && greeted.size() < static_cast<std::size_t>(ranks) + 64) greeted.push_back(std::move(peer));
    }
  }
  store.erase(key);
  return mapped;
}

SharedMemory fetch(Store& store, const std::string& key, int rank, std::size_t bytes, const Deadline& deadline) {
  const std::string where = store.get(key, deadline.left());
  const auto space = where.find(' ');
  if (space == std::string::npos || space > 90) throw ProtocolError("a malformed entry " + key + " in the store");
  Hello hello{unhex(std::string_view(where).substr(space + 1)), rank};
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  socklen_t size = 0;
  const sockaddr_un address = abstract_address(std::string_view(where).substr(0, space), size);
  if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    refuse("cannot reach local rank 0 to fetch shared memory", errno);
  }
  if (!same_user(socket.get())) throw ProtocolError("who offers shared memory is another user");
  if (::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello || !wait_readable(socket.get(), deadline)) {
    throw Timeout("local rank 0 did not hand over its shared memory", {}, {0});
  }
  FileDescriptor memory = receive_descriptor(socket.get());
  if (!memory) static_cast<void>(store.try_get(key));  // which throws if it is known why
  if (!memory) throw ProtocolError("local rank 0 refused to hand over its shared memory");
  return map(memory, bytes);
}

}  // namespace

SharedMemory share_memory(Store& store, const std::string& key, int rank, int ranks, std::size_t bytes, const Deadline& deadline) {
  return rank == 0 ? hand_out(store, key, ranks, bytes, deadline) : fetch(store, key, rank, bytes, deadline);
}

}  // namespace unisono::transport
