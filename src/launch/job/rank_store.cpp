#include "launch/job/rank_store.h"

#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/socket.h"
#include "launch/hosts/elastic_hosts.h"
#include "launch/process/program.h"
#include "rendezvous/launcher_store.h"

namespace unisono::launcher {
namespace {

constexpr const char* first_end_key = "unisono/exit/first";

std::string status_key(int rank) { return "unisono/status/" + std::to_string(rank); }
std::string lost_key(const std::string& name) { return "unisono/lost/" + name; }

}  // namespace

RankStore::RankStore(const std::string& job_id, int attempt, int first_rank, int ranks) {
  // Ranks that connect before the server runs wait in the queue of this socket.
  base::Opened listening = base::try_listen(rendezvous::launcher_address(job_id, attempt));
  listening_ = std::move(listening.fd);
  if (listening_) launcher_ends_.push_back(listening_.get());
  else base::warn(fmt::format("programs that close what they inherit cannot join as ranks: {}", error_text(listening.error)));
  for (int rank = first_rank; rank < first_rank + ranks; ++rank) {
    Connection connection = connect(rank);
    launcher_ends_.push_back(connection.of_store.get());
    own_ends_.push_back(std::move(connection.of_store));
    rank_ends_.push_back(std::move(connection.of_rank));
  }
}

RankStore::Connection RankStore::connect(int rank) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw StartFailed(fmt::format("cannot make a socket for rank {}: {}", rank, error_text(errno)), 1);
  }
  return {.of_store = base::FileDescriptor(ends[0]), .of_rank = base::FileDescriptor(ends[1])};
}

std::vector<int> RankStore::descriptors_of_others(std::size_t index) const {
  std::vector<int> all = launcher_ends_;
  for (std::size_t i = 0; i < rank_ends_.size(); ++i) {
    if (i != index) all.push_back(rank_ends_[i].get());
  }
  return all;
}

void RankStore::serve(const Hosts& hosts, int attempt) {
  rank_ends_.clear();
  server_ = std::make_unique<store::StoreServer>(store::ServerOptions{.family_of = ::getpid()});
  hosts.tell_ranks(*server_, attempt);  // first: a rank that finds nothing takes this host for the only one
  if (listening_) server_->listen(std::move(listening_));
  for (auto& end : own_ends_) server_->adopt(std::move(end));
  own_ends_.clear();
}

void RankStore::adopt(int rank, Connection connection) {
  server_->set(status_key(rank), "");  // which the new process may write from the next line on
  server_->adopt(std::move(connection.of_store));
}

std::string RankStore::status_of(int rank) const { return server_->peek(status_key(rank)).value_or(""); }

void RankStore::note_end(const std::string& name, const std::string& how) {
  server_->set("unisono/exit/" + name, how);
  if (is_of_the_start(name)) note_first_end(name + " " + how);
}

void RankStore::note_first_end(const std::string& text) {
  if (!server_->peek(first_end_key)) server_->set(first_end_key, text);
}

bool RankStore::is_left_out(const std::string& name) const { return server_->peek(lost_key(name)).has_value(); }

void RankStore::leave_out(const std::string& name) { server_->set(lost_key(name), "1"); }

}  // namespace unisono::launcher
