#include "launch/mpi/pmi_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "launch/process/program.h"

namespace unisono::launcher {
namespace {

// The limits announced to MPICH; longer input is refused.
constexpr std::size_t longest_name = 256, longest_key = 64, longest_value = 1024, longest_request = 4096;
constexpr std::size_t most_bytes = std::size_t{64} << 20;

/// Returns the mapping of ranks to hosts: the first host, the number of hosts, and the ranks on each of them, for each run of hosts that are alike.
std::string mapping_of(const MpiPlaces& places) {
  std::string text = "(vector";
  for (std::size_t begin = 0; begin < places.hosts.size();) {
    const auto is_other = [&](const MpiPlaces::Host& host) { return host.ranks != places.hosts[begin].ranks; };
    const auto end = std::find_if(places.hosts.begin() + static_cast<std::ptrdiff_t>(begin), places.hosts.end(), is_other);
    const auto count = static_cast<std::size_t>(end - places.hosts.begin()) - begin;
    text += fmt::format(",({},{},{})", begin, count, places.hosts[begin].ranks);
    begin += count;
  }
  return text + ")";
}

/// Returns the value of "name=value" in a line; values hold no spaces.
std::string_view field(std::string_view line, std::string_view name) {
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    const std::string_view word = line.substr(begin, end - begin);
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=') return word.substr(name.size() + 1);
    begin = end + 1;
  }
  return {};
}

}  // namespace

PmiServer::PmiServer(const MpiPlaces& places, std::string job, MpiExchange exchange)
    : name_(std::move(job)), world_size_(places.world_size()), hosts_(places.hosts.size()), exchange_(std::move(exchange)) {
  std::iota(hosts_.begin(), hosts_.end(), 0);
  for (int rank = 0; rank < places.ranks(); ++rank) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw StartFailed(fmt::format("cannot make a socket for rank {}: {}", rank, error_text(errno)), 1);
    connections_.push_back({base::FileDescriptor(ends[0])});
    rank_ends_.emplace_back(ends[1]);
  }
  values_["PMI_process_mapping"] = mapping_of(places);
}

void PmiServer::wait_for(PollSet& set) {
  for (auto& connection : connections_) {
    if (connection.fd) set.add(connection.fd.get(), POLLIN, [this, &connection](short) { serve(connection); });
  }
}

void PmiServer::serve(Connection& connection) {
  char buffer[longest_request];
  const ssize_t got = ::recv(connection.fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return connection.fd.reset();
  connection.unread.append(buffer, static_cast<std::size_t>(got));
  for (std::size_t end = 0; connection.fd && (end = connection.unread.find('\n')) != std::string::npos;) {
    const std::string line = connection.unread.substr(0, end);
    connection.unread.erase(0, end + 1);
    const std::string reply = answer(connection, line);
    if (!reply.empty()) send(connection, reply);
  }
  if (connection.unread.size() > longest_request) connection.fd.reset();
}

// A rank waits for every answer before it asks again, so there is always room for one. An answer that a rank does not read is lost without harm.
void PmiServer::send(Connection& connection, std::string_view line) {
  const std::string text = fmt::format("{}\n", line);
  if (::send(connection.fd.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) connection.fd.reset();
}

void PmiServer::come_to_barrier() {
  if (!std::ranges::all_of(connections_, [](const Connection& connection) { return connection.in_barrier; })) return;
  if (!exchange_) return release_barrier();
  exchange_(fmt::format("pmi{}", barriers_++), hosts_, std::exchange(fresh_, {}).take(), [this](const std::vector<std::string>& of_hosts) {
    for (const std::string& put : of_hosts) take(put);
    release_barrier();
  });
}

void PmiServer::take(std::string_view put) {
  base::ByteReader reader(put);
  while (reader.ok() && !reader.complete()) {
    const std::string key(reader.text());
    const std::string_view value = reader.text();
    if (reader.ok()) values_[key] = value;
  }
}

void PmiServer::release_barrier() {
  for (auto& connection : connections_) {
    connection.in_barrier = false;
    if (connection.fd) send(connection, "cmd=barrier_out");
  }
}

std::string PmiServer::answer(Connection& connection, std::string_view line) {
  const std::string_view command = field(line, "cmd");
  if (command == "init") return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
  if (command == "get_maxes") return fmt::format("cmd=maxes kvsname_max={} keylen_max={} vallen_max={}", longest_name, longest_key, longest_value);
  if (command == "get_appnum") return "cmd=appnum appnum=0";
  if (command == "get_my_kvsname") return fmt::format("cmd=my_kvsname kvsname={}", name_);
  if (command == "get_universe_size") return fmt::format("cmd=universe_size size={}", world_size_);
  if (command == "put") {
    const std::string_view key = field(line, "key"), value = field(line, "value");
    const bool fits = !key.empty() && key.size() <= longest_key && value.size() <= longest_value && bytes_ + key.size() + value.size() <= most_bytes;
    if (!fits) return "cmd=put_result rc=-1 msg=too_long";
    bytes_ += key.size() + value.size();
    values_[std::string(key)] = value;
    if (exchange_) fresh_.text(key).text(value);
    return "cmd=put_result rc=0 msg=success";
  }
  if (command == "get") {
    const auto found = values_.find(field(line, "key"));
    if (found == values_.end()) return "cmd=get_result rc=-1 msg=key_not_found value=unknown";
    return fmt::format("cmd=get_result rc=0 msg=success value={}", found->second);
  }
  if (command == "barrier_in") {
    connection.in_barrier = true;
    come_to_barrier();
    return {};
  }
  if (command == "finalize") return "cmd=finalize_ack";
  if (command == "abort") return {};  // the rank ends with its own code, which the launcher sees
  connection.fd.reset();
  return {};
}

}  // namespace unisono::launcher
