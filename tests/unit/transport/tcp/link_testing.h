#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/deadline.h"
#include "base/socket.h"
#include "base/tls.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/link.h"
#include "transport/tcp/meeting.h"
#include "unisono/detail/switches.h"

namespace unisono::testing {

using namespace std::chrono_literals;
using transport::Link;

inline constexpr auto patience = 60s;  ///< no test takes that long unless something hangs

inline Link::Options link_options(int rank, int ranks, std::shared_ptr<Store> store, std::chrono::milliseconds timeout = patience) {
  Link::Options options;
  options.rank = rank;
  for (int r = 0; r < ranks; ++r) options.hosts.push_back(r);
  options.address = "127.0.0.1";
  options.store = std::move(store);
  options.tls = base::tls_options(base::Environment::process());  // the suites run with and without
  options.timeout = timeout;
  return options;
}

/// Runs a function for each rank in a thread of its own; what one throws fails the test.
inline void as_ranks(int ranks, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&body, r] {
      try {
        body(r);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << r << ": " << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

/// The links of all ranks, each on a host of its own.
inline std::vector<std::shared_ptr<Link>> make_links(int ranks, const std::function<void(Link::Options&)>& change = {}) {
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::shared_ptr<Link>> links(static_cast<std::size_t>(ranks));
  as_ranks(ranks, [&](int rank) {
    auto options = link_options(rank, ranks, store);
    if (change) change(options);
    links[static_cast<std::size_t>(rank)] = Link::connect(options);
  });
  return links;
}

/// Looks until it is so; false: it never came. After the first looks it pauses between two, because a thread that only looks takes a processor from
/// the many threads that it waits for.
inline bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds at_most = patience) {
  const base::Deadline deadline(at_most);
  for (int looks = 0; !condition(); ++looks) {
    if (deadline.passed()) return false;
    if (looks < 20) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(200us);
    }
  }
  return true;
}

inline void finish(Task& task) {
  if (!eventually([&] { return task.advance(); })) throw Error("a task does not end");
}

/// Numbers that differ from byte to byte and from seed to seed.
inline std::vector<unsigned char> pattern(std::size_t bytes, unsigned seed) {
  std::vector<unsigned char> data(bytes);
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (auto& byte : data) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return data;
}

/// Silence ends earlier for the time of a test.
class ImpatientWithSilence {
 public:
  explicit ImpatientWithSilence(std::chrono::milliseconds limit) { detail::set_silence_limit(limit); }
  ~ImpatientWithSilence() { detail::set_silence_limit(before_); }
  ImpatientWithSilence(const ImpatientWithSilence&) = delete;
  ImpatientWithSilence& operator=(const ImpatientWithSilence&) = delete;

 private:
  const std::chrono::milliseconds before_ = detail::silence_limit();
};

/// Rank 0's link, and rank 1 as a bare connection that has proved itself: what it says is up to the test.
struct LinkAndHand {
  std::shared_ptr<Link> link;
  transport::Established hand;
  std::unique_ptr<transport::FrameCodes> codes;

  /// The bytes of a frame, with the code that it has where it is the next one to be sent.
  std::string sealed(const transport::FrameHead& head, std::string_view payload = {}) const {
    auto bytes = transport::to_bytes(head);
    codes->seal(bytes, head, std::as_bytes(std::span(payload)));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()).append(payload);
  }
  void say(const transport::FrameHead& head, std::string_view payload = {}) const { say_bytes(sealed(head, payload)); }
  void say_bytes(std::string_view bytes) const {
    // The link may have had enough of it already.
    while (!bytes.empty()) {
      const ssize_t sent = base::send(hand.fd.get(), hand.tls.get(), bytes.data(), bytes.size());
      if (sent < 0 && errno != EAGAIN) return;
      if (sent < 0) base::wait_for(hand.fd.get(), POLLOUT, base::Deadline(patience));
      else bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void hang_up() { hand.fd.reset(); }
};

inline LinkAndHand make_link_and_hand(const std::function<void(Link::Options&)>& change = {}, const std::optional<base::TlsOptions>& tls = {}) {
  const auto store = std::make_shared<MemoryStore>();
  LinkAndHand both;
  as_ranks(2, [&](int rank) {
    auto options = link_options(rank, 2, store);
    if (change && rank == 0) change(options);
    if (tls) options.tls = *tls;
    if (rank == 0) both.link = Link::connect(options);
    else both.hand = std::move(transport::meet(options).connections.at(0));
  });
  both.codes = std::make_unique<transport::FrameCodes>(both.hand.keys.sending);
  return both;
}

}  // namespace unisono::testing
