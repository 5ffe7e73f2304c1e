#include "hosts/host_start.h"

#include <algorithm>

#include <fmt/format.h>

#include "launch/process/host.h"
#include "launch/output/rank_stream.h"
#include "rendezvous/own_address.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

base::Secret fresh_secret() {
  std::string text = launcher::random_id(), more = launcher::random_id();
  base::append_wiping(text, more);
  base::wipe(more);
  return base::Secret::taking(std::move(text));
}

void send_with_secret(RemoteHost& host, FrameKind kind, Fields fields, std::string_view name, const base::Secret& secret) {
  fields.emplace_back(name, secret.view());
  std::string payload = encode(fields);
  host.send(kind, payload);
  base::wipe(payload);
  base::wipe(fields.back().second);
}

}  // namespace

Fields config_of_agent(const std::string& folder, std::chrono::milliseconds silence, bool address_is_needed,
                       const std::vector<std::string>& variables, const base::Environment& environment) {
  Fields config{{"folder", folder},
                {"silence", std::to_string(silence.count())},
                {"outer connection", environment.get("SSH_CONNECTION").value_or("")},
                {"address is needed", address_is_needed ? "yes" : "no"}};
  for (const std::string& variable : variables) config.emplace_back("variable", variable);
  return config;
}

void HostStart::reach_hosts() {
  for (const HostEntry& entry : job_.hosts) {
    ConductedHost host{.remote = std::make_unique<RemoteHost>(entry, job_.start_command)};
    const bool address_is_needed = hosts_.empty() && job_.hosts.size() > 1 && job_.master_addr.empty();
    const Fields config = config_of_agent(job_.folder, job_.options->hosts.silence, address_is_needed, job_.variables, job_.options->environment);
    host.remote->send(FrameKind::config, encode(config));
    hosts_.push_back(std::move(host));
  }
}

/// Host 0 tells by which address it was reached. Where it is this host, the others tell which address they were reached from.
std::string HostStart::meeting_address() const {
  if (!job_.master_addr.empty()) return job_.master_addr;
  const bool is_chosen = job_.options->environment.has("UNISONO_INTERFACE");
  if (hosts_.front().remote->is_local() && !is_chosen) {
    for (const ConductedHost& host : hosts_)
      if (const std::string peer = field(*host.hello, "peer"); !peer.empty() && !host.remote->is_local()) return peer;
  }
  return all_are_local() ? "127.0.0.1" : field(*hosts_.front().hello, "address");
}

bool HostStart::all_are_local() const {
  return std::ranges::all_of(hosts_, [](const ConductedHost& host) { return host.remote->is_local(); });
}

void HostStart::choose_address() {
  if (hosts_.size() == 1) return;
  address_ = meeting_address();
  if (job_.master_addr.empty() && !all_are_local()) rendezvous::check_for_other_hosts(address_, job_.options->environment);
}

std::optional<int> HostStart::port() const {
  if (hosts_.size() == 1) return 0;
  return job_.master_port != 0 ? std::optional(job_.master_port) : std::nullopt;
}

void HostStart::ask_for_port() { hosts_.front().remote->send(FrameKind::port, encode(Fields{{"address", address_}})); }

std::vector<std::string> HostStart::launcher_words(std::size_t number, int port) const {
  std::vector<std::string> words = job_.words(hosts_[number].remote->entry());
  std::vector<std::string> where{"-n", std::to_string(hosts_[number].remote->entry().slots)};
  if (hosts_.size() > 1) {
    where.insert(where.end(), {"--nnodes", std::to_string(hosts_.size()), "--node-rank", std::to_string(number), "--master-addr", address_,
                               "--master-port", std::to_string(port), "--token-file", "{token-file}"});
  }
  words.insert(words.begin() + 1, where.begin(), where.end());
  return words;
}

void HostStart::start_launchers(int port) {
  const base::Secret secret = job_.secret.empty() ? fresh_secret() : job_.secret;
  const std::string log_name = launcher::log_folder_name(launcher::random_id());
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Fields fields{{"log name", log_name}};
    for (std::string& word : launcher_words(i, port)) fields.emplace_back("word", std::move(word));
    send_with_secret(*hosts_[i].remote, FrameKind::start, std::move(fields), "secret", hosts_.size() > 1 ? secret : base::Secret());
  }
}

}  // namespace unisono::tools
