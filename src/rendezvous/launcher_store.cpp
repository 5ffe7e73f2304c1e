#include "rendezvous/launcher_store.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/host.h"
#include "base/switches.h"
#include "rendezvous/plan.h"
#include "store/client.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

constexpr std::string_view variable = "UNISONO_LAUNCHER_FD", silence_key = "unisono/silence";

/// The connections of this process, by the address and the descriptor that the variables name.
struct Connections {
  std::mutex mutex;
  std::map<std::pair<std::string, int>, std::pair<std::shared_ptr<Store>, pid_t>> open;
  std::vector<std::shared_ptr<Store>> of_parents;  ///< a child of fork keeps its parent's objects, which own numbers of descriptors
};
Connections& connections() {
  static Connections& instance = *new Connections;  // never destroyed: threads may use it while the process ends
  return instance;
}

std::string described(pid_t process) {
  const std::string name = base::name_of(process);
  return name.empty() ? fmt::format("process {}", process) : fmt::format("process {} ({})", process, name);
}

/// Returns why the descriptor leads to no launcher; empty where it may lead to one.
std::string objection(int fd) {
  if (fd < 0 || ::fcntl(fd, F_GETFD) < 0) return "which is not an open descriptor";
  if (!base::is_stream_socket(fd, AF_UNIX)) return "which is not a connection to a launcher";
  const pid_t peer = base::peer_process(fd);
  // The launcher is above this process, unless it is in another PID namespace or a process between both has ended. It may be this one in a test.
  const bool may_be = peer == 0 || peer == ::getpid() || ::getppid() == 1 || base::is_descendant(::getpid(), peer);
  return may_be && base::peer_is_same_user(fd) ? "" : fmt::format("which is a socket of {}, and that is not the launcher", described(peer));
}

/// Asks the store for how long other hosts may be silent. A launcher that does not answer is named.
void ask_for_silence(Store& store, pid_t launcher, const base::Deadline& deadline) {
  const JoinTimeout bounded(store, std::max(deadline.left(), std::chrono::milliseconds(1)));
  try {
    const auto limit = store.try_get(silence_key);
    if (limit) base::suggest_silence_limit(std::chrono::milliseconds(std::stoll(*limit)));
  } catch (const Timeout&) {
    const std::string stat = base::stat_after_name(launcher);
    const bool is_stopped = stat.starts_with('T') || stat.starts_with('t');
    throw Timeout(fmt::format("the launcher, {}, did not answer within {} ms{}", described(launcher), deadline.timeout().count(),
                              is_stopped ? ": it is stopped" : ""),
                  {.operation = "initialize",
                   .hint = is_stopped ? fmt::format("kill -CONT {} lets it go on", launcher) : "is that process `unisono run`, and does it go on?"});
  }
}

std::shared_ptr<Store> connect(const std::string& job_id, int attempt, int fd, const base::Deadline& deadline) {
  constexpr std::string_view place = "the launcher's store";
  std::string reason;
  if (!job_id.empty()) {
    const base::SocketAddress address = launcher_address(job_id, attempt);
    base::Opened opened = base::try_connect(address, deadline);
    if (opened.fd && base::peer_is_same_user(opened.fd.get())) {
      const pid_t launcher = base::peer_process(opened.fd.get());
      auto client = std::make_shared<store::Client>(std::move(opened.fd), std::string(place));
      client->send_greeting();
      ask_for_silence(*client, launcher, deadline);
      return client;
    }
    reason = fmt::format(", and at {} {}", base::describe(address), opened.fd ? "listens another user" : "nobody listens");
  }
  if (const std::string objected = objection(fd); !objected.empty()) {
    throw InvalidArgument(fmt::format("{} is {}, {}{}", variable, fd, objected, reason),
                          {.operation = "initialize", .hint = reason.empty() ? "" : "does `unisono run` still run, in this network namespace?"});
  }
  const pid_t launcher = base::peer_process(fd);
  auto store = store::connect_fd(base::FileDescriptor(fd));
  ask_for_silence(*store, launcher, deadline);
  return store;
}

}  // namespace

base::SocketAddress launcher_address(std::string_view job_id, int attempt) {
  return base::SocketAddress::abstract_unix(fmt::format("unisono-ranks-{}-{}", job_id, attempt));
}

std::shared_ptr<Store> launcher_store(const base::Environment& environment, const base::Deadline& deadline) {
  const std::string job_id(environment.get("UNISONO_JOB_ID").value_or(""));
  const int attempt = environment.get_int("UNISONO_ATTEMPT").value_or(0);
  const int fd = environment.get_int(variable).value_or(-1);
  Connections& all = connections();
  const std::lock_guard lock(all.mutex);
  auto& [store, process] = all.open[{fmt::format("{} {}", job_id, attempt), fd}];
  if (store && process == ::getpid()) return store;
  if (store) all.of_parents.push_back(std::move(store));
  store = connect(job_id, attempt, fd, deadline);
  process = ::getpid();
  return store;
}

bool is_launched_as(const base::Environment& environment, int rank, int world_size) {
  return environment.get_int("RANK") == rank && environment.get_int("WORLD_SIZE") == world_size;
}

void tell_of_silence(store::StoreServer& launcher_store, std::chrono::milliseconds limit) {
  launcher_store.set(silence_key, std::to_string(limit.count()));
}

std::optional<base::Secret> token_of_launcher(Store& launcher_store) {
  auto text = launcher_store.try_get("unisono/store/token");
  if (!text) return std::nullopt;
  return base::Secret::taking(std::move(*text));
}

std::shared_ptr<Store> store_of_own_launcher(const base::Environment& environment, const base::Deadline& deadline) {
  if (!environment.has(variable)) return nullptr;
  try {
    return launcher_store(environment, deadline);
  } catch (const InvalidArgument&) {
    return nullptr;
  } catch (const PeerFailed&) {
    return nullptr;  // the launcher does not know this process
  }
}

}  // namespace unisono::rendezvous
