// The start of a job on several hosts: their agents, where the launchers meet, and the launchers.
#include <fmt/format.h>

#include "hosts/conducting.h"
#include "hosts/start_words.h"
#include "launch/output/rank_log.h"
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

void Conductor::start_hosts() {
  const std::string connection = options_.environment.get("SSH_CONNECTION").value_or("");
  for (const HostEntry& entry : job_.hosts) {
    const bool local = is_this_host(entry.name);
    Host host{.remote = std::make_unique<RemoteHost>(entry, local ? std::vector<std::string>() : start_words(job_.start_command, entry))};
    Fields config{{"folder", job_.folder},
                  {"silence", std::to_string(options_.silence.count())},
                  {"outer connection", connection},
                  {"address is needed", hosts_.empty() && job_.hosts.size() > 1 && job_.master_addr.empty() ? "yes" : "no"}};
    for (const std::string& variable : job_.variables) config.emplace_back("variable", variable);
    send_with_secret(*host.remote, FrameKind::config, std::move(config), "etcd password",
                     options_.environment.secret("UNISONO_ETCD_PASSWORD").value_or(base::Secret()));
    hosts_.push_back(std::move(host));
  }
}

/// Host 0 tells by which address it was reached. Where it is this host, the others tell which address they were reached from.
std::string Conductor::meeting_address() const {
  if (!job_.master_addr.empty()) return job_.master_addr;
  const bool is_chosen = options_.environment.has("UNISONO_INTERFACE");
  if (hosts_.front().remote->is_local() && !is_chosen) {
    for (const Host& host : hosts_)
      if (const std::string peer = field(*host.hello, "peer"); !peer.empty() && !host.remote->is_local()) return peer;
  }
  const bool is_one = all([](const Host& host) { return host.remote->is_local(); });
  return is_one ? "127.0.0.1" : field(*hosts_.front().hello, "address");
}

void Conductor::begin_start() {
  if (hosts_.size() == 1) return start_launchers(0);
  address_ = meeting_address();
  if (job_.master_addr.empty() && !all([](const Host& host) { return host.remote->is_local(); })) {
    try {
      rendezvous::check_for_other_hosts(address_, options_.environment);
    } catch (const InvalidArgument& error) {
      return refuse(hosts_.front(), error.message(), error.info().hint);
    }
  }
  if (job_.master_port != 0) return start_launchers(job_.master_port);
  phase_ = Phase::port;
  hosts_.front().remote->send(FrameKind::port, encode(Fields{{"address", address_}}));
}

std::vector<std::string> Conductor::launcher_words(std::size_t number, int port) const {
  std::vector<std::string> words = job_.words(hosts_[number].remote->entry());
  std::vector<std::string> where{"-n", std::to_string(hosts_[number].remote->entry().slots)};
  if (hosts_.size() > 1) {
    where.insert(where.end(), {"--nnodes", std::to_string(hosts_.size()), "--node-rank", std::to_string(number), "--master-addr", address_,
                               "--master-port", std::to_string(port), "--token-file", "{token-file}"});
  }
  words.insert(words.begin() + 1, where.begin(), where.end());
  return words;
}

void Conductor::start_launchers(int port) {
  const base::Secret secret = job_.secret.empty() ? fresh_secret() : job_.secret;
  const std::string log_name = launcher::log_folder_name(launcher::random_id());
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Fields fields{{"log name", log_name}};
    for (std::string& word : launcher_words(i, port)) fields.emplace_back("word", std::move(word));
    send_with_secret(*hosts_[i].remote, FrameKind::start, std::move(fields), "secret", hosts_.size() > 1 ? secret : base::Secret());
  }
  phase_ = Phase::running;
  for (Host& host : hosts_) host.remote->forgive_silence();  // it was asked nothing before
  input_.begin();
}

}  // namespace unisono::tools
