#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "base/socket.h"
#include "store/wire.h"

// The store's language, word by word: what a stranger may say to a server, and what comes back.
namespace unisono::store {

using namespace std::chrono_literals;
using base::Deadline;
using base::FileDescriptor;

inline void say(const FileDescriptor& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) {
      if (!base::wait_for(fd.get(), POLLOUT, Deadline(5s))) return;
      continue;
    }
    if (n < 0) return;  // it hung up on us
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// The bytes that come until the other side closes (or 20 s pass, which fails the test).
inline std::string hear(const FileDescriptor& fd) {
  std::string all;
  char chunk[4096];
  for (;;) {
    if (!base::wait_for(fd.get(), POLLIN, Deadline(20s))) {
      ADD_FAILURE() << "the server keeps the connection";
      return all;
    }
    const ssize_t n = ::recv(fd.get(), chunk, sizeof chunk, 0);
    if (n <= 0) return all;
    all.append(chunk, static_cast<std::size_t>(n));
  }
}

/// Exactly one greeting or frame's worth of bytes.
inline std::string hear(const FileDescriptor& fd, std::size_t n) {
  std::string all(n, '\0');
  std::size_t have = 0;
  while (have < n && base::wait_for(fd.get(), POLLIN, Deadline(20s))) {
    const ssize_t got = ::recv(fd.get(), all.data() + have, n - have, 0);
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  all.resize(have);
  return all;
}

inline std::string hear_frame(const FileDescriptor& fd) {
  const std::string head = hear(fd, frame_head);
  if (head.size() < frame_head) return {};
  std::size_t length = 0;
  for (std::size_t i = frame_head; i-- > 0;) length = length << 8 | static_cast<unsigned char>(head[i]);
  return hear(fd, length);
}

/// Greets and says hello as a client does; returns the server's nonce.
inline std::string challenge(const FileDescriptor& fd, const std::string& client_nonce, bool has_token) {
  say(fd, greeting());
  EXPECT_EQ(hear(fd, greeting_size), greeting());
  say(fd, Writer(Op::hello).text(client_nonce).text("").integer(has_token ? 1 : 0).finish());
  const std::string frame = hear_frame(fd);
  Reader in(frame);
  EXPECT_EQ(static_cast<Status>(in.byte()), Status::challenge);
  in.integer();
  return std::string(in.text());
}

inline Status status_of(const std::string& frame) { return frame.empty() ? static_cast<Status>(0) : static_cast<Status>(frame[0]); }

}  // namespace unisono::store
