#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/socket.h"
#include "base/tls.h"
#include "certificates.h"

namespace unisono::testing {

using namespace std::chrono_literals;
using base::TlsConnection;
using base::TlsIdentity;
using base::TlsSide;
using Progress = base::TlsConnection::Progress;

inline std::shared_ptr<const base::TlsContext> context_of(const TlsIdentity& identity) {
  const auto& found = base::tls_availability();
  EXPECT_NE(found.library, nullptr) << found.why_not;
  std::string why;
  std::shared_ptr<const base::TlsContext> context = found.library->make_context(identity, why);
  EXPECT_TRUE(context) << why;
  return context;
}
/// Why there is none.
inline std::string refusal_of(const TlsIdentity& identity) {
  std::string why;
  EXPECT_FALSE(base::tls_availability().library->make_context(identity, why));
  return why;
}
inline TlsIdentity key_of(char letter) { return {.key = std::string(32, letter)}; }

/// The two ends of a stream, each with its TLS. One thread plays both sides.
struct TlsPair {
  TlsPair(const base::TlsContext& connecting_context, const base::TlsContext& accepting_context) : ends(base::make_socket_pair()) {
    base::set_non_blocking(ends.first.get());
    base::set_non_blocking(ends.second.get());
    std::string why;
    connecting = connecting_context.open(ends.first.get(), TlsSide::connecting, why);
    accepting = accepting_context.open(ends.second.get(), TlsSide::accepting, why);
    EXPECT_TRUE(connecting && accepting) << why;
  }
  explicit TlsPair(const TlsIdentity& identity) : TlsPair(*context_of(identity), *context_of(identity)) {}

  /// Both go on until neither waits; the outcomes of the connecting and of the accepting side. A side whose handshake is done looks for the verdict
  /// of the other, as any reader does.
  std::pair<Progress, Progress> shake_hands() const {
    auto one = Progress::waits, other = Progress::waits;
    for (int round = 0; round < 20 && (one == Progress::waits || other == Progress::waits); ++round) {
      if (one == Progress::waits) one = connecting->shake_hands();
      if (other == Progress::waits) other = accepting->shake_hands();
    }
    return {one, other};
  }
  bool is_open() const { return shake_hands() == std::pair(Progress::done, Progress::done); }

  base::SocketPair ends;
  std::unique_ptr<TlsConnection> connecting, accepting;
};

inline ssize_t read_from(TlsConnection& from, void* to, std::size_t size) {
  const iovec part{to, size};
  return from.read(&part, 1);
}
inline ssize_t write_to(TlsConnection& to, std::string_view text) {
  const iovec part{const_cast<char*>(text.data()), text.size()};
  return to.write(&part, 1);
}
/// What has arrived, up to so many bytes.
inline std::string heard(TlsConnection& from, std::size_t most = 1 << 20) {
  std::string text(most, '\0');
  const ssize_t n = read_from(from, text.data(), most);
  text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return text;
}

}  // namespace unisono::testing
