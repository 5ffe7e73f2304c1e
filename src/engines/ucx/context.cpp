#include "engines/ucx/context.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "engines/ucx/devices.h"
#include "unisono/error.h"

namespace unisono::engines::ucx {
namespace {

/// The process that has used UCX first: UCX's threads are there alone, and not in the children that are forked from it later.
std::atomic<pid_t> first_process{0};

void require_own_process() {
  pid_t none = 0;
  const pid_t self = ::getpid();
  if (first_process.compare_exchange_strong(none, self) || none == self) return;
  throw BackendUnavailable(fmt::format("ucx cannot be used here: this process was forked from process {}, which had used UCX before", none),
                           {.hint = "fork before the first group, or start a program anew"});
}

class Config {
 public:
  explicit Config(const Library& library) : library_(library) {
    if (const ucs_status_t status = library.ucp_config_read(nullptr, nullptr, &config_); status != UCS_OK) {
      throw BackendUnavailable("ucx cannot read its settings: " + text_of(library, status), {.hint = "check the variables that begin with UCX_"});
    }
  }
  ~Config() { library_.ucp_config_release(config_); }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  void set(const char* name, const std::string& value) {
    if (const ucs_status_t status = library_.ucp_config_modify(config_, name, value.c_str()); status != UCS_OK) {
      throw BackendUnavailable(fmt::format("ucx does not take the setting {}={}: {}", name, value, text_of(library_, status)));
    }
  }
  const ucp_config_t* get() const { return config_; }

 private:
  const Library& library_;
  ucp_config_t* config_ = nullptr;
};

}  // namespace

std::string text_of(const Library& library, ucs_status_t status) { return library.ucs_status_string(status); }

std::shared_ptr<Context> Context::of(const EngineOptions& options) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::string, std::weak_ptr<Context>>;
  require_own_process();
  const std::string devices = is_set("UCX_NET_DEVICES") ? std::string() : devices_for(options.address, network_transports(ucx::library()));
  const std::lock_guard lock(mutex);
  std::weak_ptr<Context>& one = known[devices];
  std::shared_ptr<Context> context = one.lock();
  if (!context) one = context = std::make_shared<Context>(devices);
  return context;
}

Context::Context(const std::string& devices) : library_(ucx::library()), process_(::getpid()) {
  Config config(library_);
  if (!devices.empty()) config.set("NET_DEVICES", devices);
  // How soon a peer in shared memory is noticed to be dead; UCX's own default is 20 s.
  if (!is_set("UCX_KEEPALIVE_INTERVAL")) config.set("KEEPALIVE_INTERVAL", "1s");
  // UCX does not use shared memory on endpoints that notice a dead peer otherwise. It warns of a setting that no transport takes.
  const char* const transports = std::getenv("UCX_TLS");
  const std::string list = transports != nullptr ? transports : "";
  const bool has_shared_memory = admits(list, "posix") || admits(list, "sysv");
  const bool is_chosen = is_set("UCX_MM_ERROR_HANDLING") || is_set("UCX_POSIX_ERROR_HANDLING") || is_set("UCX_SYSV_ERROR_HANDLING");
  if (has_shared_memory && !is_chosen) config.set("MM_ERROR_HANDLING", "y");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;  // groups call from different threads
  if (const ucs_status_t status = library_.ucp_init_version(oldest_major, oldest_minor, &params, config.get(), &handle_); status != UCS_OK) {
    throw BackendUnavailable("ucx finds nothing to work with: " + text_of(library_, status),
                             {.hint = "check UCX_TLS and UCX_NET_DEVICES; `ucx_info -d` lists what there is"});
  }
}

bool Context::is_of_this_process() const { return process_ == ::getpid(); }

Context::~Context() {
  if (is_of_this_process()) library_.ucp_cleanup(handle_);
}

}  // namespace unisono::engines::ucx
