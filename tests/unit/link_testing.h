#pragma once

#include <sys/socket.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/deadline.h"
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

/// Looks until it is so; false: it never came.
inline bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds at_most = patience) {
  const base::Deadline deadline(at_most);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
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
  base::FileDescriptor hand;

  void say(const transport::FrameHead& head, std::string_view payload = {}) const {
    const auto bytes = transport::to_bytes(head);
    say_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    say_bytes(payload);
  }
  void say_bytes(std::string_view bytes) const {
    // The link may have had enough of it already.
    [[maybe_unused]] const auto sent = ::send(hand.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
};

inline LinkAndHand make_link_and_hand(const std::function<void(Link::Options&)>& change = {}) {
  const auto store = std::make_shared<MemoryStore>();
  LinkAndHand both;
  as_ranks(2, [&](int rank) {
    auto options = link_options(rank, 2, store);
    if (change && rank == 0) change(options);
    if (rank == 0) both.link = Link::connect(options);
    else both.hand = std::move(transport::meet(options).at(0).fd);
  });
  return both;
}

}  // namespace unisono::testing
