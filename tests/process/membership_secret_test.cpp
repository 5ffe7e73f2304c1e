// What somebody can do who reads the store in which the ranks of one host meet: PyTorch's own store shows everybody all that is in it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/socket.h"
#include "running_command.h"
#include "spawn_ranks.h"
#include "transport/tcp/handshake.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;
using transport::Handshake;

/// Tries to be accepted by rank 1 as rank 0. Returns whether it was, or "silence".
std::string answer_of_rank_1(const base::SocketAddress& address, const std::string& secret) {
  const base::Deadline deadline(60s);
  const base::Opened opened = base::try_connect(address, deadline);
  if (!opened.fd) return base::error_text(opened.error);
  Handshake stranger = Handshake::connecting(secret, 0, 1);
  while (!stranger.done()) {
    const std::string said = stranger.take_output();
    if (::send(opened.fd.get(), said.data(), said.size(), MSG_NOSIGNAL) < 0) return "refused";
    if (!base::wait_for(opened.fd.get(), POLLIN, deadline)) return "silence";
    std::array<char, 1024> bytes{};
    const ssize_t got = ::recv(opened.fd.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return "refused";
    stranger.receive({bytes.data(), static_cast<std::size_t>(got)});
  }
  return "accepted";
}

/// The store of rank 0, which lets a stranger try all that it has read in it as soon as it has read where rank 1 listens.
class ReadByAStranger final : public Store {
 public:
  explicit ReadByAStranger(std::shared_ptr<Store> inner) : inner_(std::move(inner)) {}
  const std::vector<std::string>& answers() const { return answers_; }

  void set(std::string_view key, std::string_view value) override { inner_->set(key, read(value)); }
  std::string get(std::string_view key, std::optional<Milliseconds> timeout) override {
    std::string value = inner_->get(key, timeout);
    read(value);
    if (key.ends_with("link/address/1")) try_all(value);
    return value;
  }
  std::optional<std::string> try_get(std::string_view key) override {
    auto value = inner_->try_get(key);
    if (value) read(*value);
    return value;
  }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return inner_->add(key, amount); }
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) override { inner_->wait(keys, timeout); }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return inner_->compare_set(key, expected, read(desired));
  }
  bool erase(std::string_view key) override { return inner_->erase(key); }
  std::int64_t num_keys() override { return inner_->num_keys(); }

 private:
  std::string_view read(std::string_view value) {
    if (value.size() == transport::secret_size) candidates_.emplace(value);
    return value;
  }
  void try_all(const std::string& where) {
    const auto space = where.find(' ');
    const auto address = base::resolve(where.substr(0, space), static_cast<std::uint16_t>(std::stoi(where.substr(space + 1)))).front();
    for (const std::string& secret : candidates_) answers_.push_back(answer_of_rank_1(address, secret));
  }

  std::shared_ptr<Store> inner_;
  std::set<std::string> candidates_;
  std::vector<std::string> answers_;
};

TEST(MembershipOfOneHost, TheStoreOfOneHostHasNoSecretThatTheConnectionsAccept) {
  const TemporaryFolder folder;
  const auto results = spawn(ranks(2), [path = folder.path() + "/store"] {
    const auto store = std::make_shared<ReadByAStranger>(std::make_shared<FileStore>(path));
    const Membership both({.store = store, .rank = rank(), .size = 2, .name = "both", .backend = "tcp"});
    if (all_reduce(rank() + 1, ReduceOp::sum, both.group()) != 3) return std::vector<std::string>{"a wrong sum"};
    return store->answers();
  });
  EXPECT_EQ(results[0], std::vector<std::string>{"refused"}) << "the store has one value that could be the secret";
}

}  // namespace
}  // namespace unisono::testing
