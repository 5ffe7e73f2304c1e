#include "context/formation.h"

#include <cstdlib>
#include <vector>

#include "ground/error_text.h"
#include "ground/log.h"
#include "rendezvous/reach.h"
#include "store/watched_store.h"
#include "unisono/error.h"

namespace unisono::context {
namespace {

using namespace std::chrono_literals;

constexpr auto time_to_read = 1s;

}  // namespace

Formation::Formation(const rendezvous::JobIdentity& identity)
    : rank_(identity.rank),
      world_size_(identity.world_size),
      serves_store_(identity.serves_store),
      launcher_(identity.launcher_store),
      prefix_("unisono/world/" + std::to_string(identity.generation) + "/") {
  if (world_size_ == 1) {
    store_ = watched_ = std::make_shared<MemoryStore>();
    return;
  }
  store_ = std::make_shared<PrefixStore>(prefix_, identity.store);
  watched_ = std::make_shared<store::WatchedStore>(store_, [forming = forming_] {
    if (const Formation* formation = forming->load()) formation->look();
  });
}

Formation::~Formation() { forming_->store(nullptr); }

void Formation::look() const {
  if (const auto text = store_->try_get("failed")) {
    const auto end = text->find('\t');
    const std::string culprit = text->substr(0, end);
    throw PeerFailed("rank " + culprit + " cannot join: " + (end == std::string::npos ? std::string() : text->substr(end + 1)),
                     {.operation = "initialize", .rank = rank_, .culprit = std::atoi(culprit.c_str())}, PeerFailed::Cause::aborted);
  }
  if (launcher_) rendezvous::throw_if_a_rank_ended(*launcher_);
}

void Formation::give_up(const std::exception_ptr& reason) noexcept {
  if (world_size_ == 1) return;
  try {
    std::string message = std::to_string(rank_);
    message += '\t';
    message += ground::message_of(reason);
    store_->compare_set("failed", "", message);
    if (!serves_store_) return store_->set("read/" + std::to_string(rank_), "1");
    std::vector<std::string> keys;
    for (int r = 0; r < world_size_; ++r) {
      if (r != rank_) keys.push_back("read/" + std::to_string(r));
    }
    store_->wait(keys, time_to_read);
  } catch (const std::exception& error) {  // they are gone, or in something else by now; nobody is left to be told
    ground::log(ground::LogLevel::debug, error.what());
  }
}

}  // namespace unisono::context
