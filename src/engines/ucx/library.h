#pragma once

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

#include <cstdlib>
#include <string>

namespace unisono::engines::ucx {

// The functions of UCX that are used. All are in release 1.13, and in every later one.
#define UNISONO_UCX_FUNCTIONS(apply)                                                                                                               \
  apply(ucp_get_version) apply(ucp_get_version_string) apply(ucp_init_version) apply(ucp_cleanup) apply(ucp_config_read) apply(ucp_config_release) \
      apply(ucp_config_modify) apply(ucp_worker_create) apply(ucp_worker_destroy) apply(ucp_worker_query) apply(ucp_worker_get_address)            \
          apply(ucp_worker_release_address) apply(ucp_worker_progress) apply(ucp_worker_get_efd) apply(ucp_worker_arm) apply(ucp_worker_flush_nbx) \
              apply(ucp_ep_create) apply(ucp_ep_close_nbx) apply(ucp_tag_send_nbx) apply(ucp_tag_recv_nbx) apply(ucp_request_cancel)               \
                  apply(ucp_request_check_status) apply(ucp_request_free) apply(ucs_status_string) apply(uct_query_components)                     \
                      apply(uct_release_component_list) apply(uct_component_query) apply(uct_md_config_read) apply(uct_config_release)             \
                          apply(uct_md_open) apply(uct_md_close) apply(uct_md_query_tl_resources) apply(uct_release_tl_resource_list)

/// UCX as it was found. The plug-in is linked to none, so that it can say what is missing on a machine without it.
struct Library {
#define UNISONO_UCX_MEMBER(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): it is the name of the member
  UNISONO_UCX_FUNCTIONS(UNISONO_UCX_MEMBER)
#undef UNISONO_UCX_MEMBER
  std::string version;  ///< "1.13.1"
};

/// Tells whether a variable of the environment has a value.
inline bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// The oldest release that can be used.
inline constexpr unsigned oldest_major = 1, oldest_minor = 13;

/// Opens UCX's libraries by the name or path of libucp; `name` empty: the system's. Throws BackendUnavailable, which says what to install.
/// UCX catches signals as soon as it is loaded. The program's own ways of handling them are put back, unless UCX_HANDLE_ERRORS asks for UCX's. What
/// it warns of goes to standard error, unless UCX_LOG_LEVEL or UCX_LOG_FILE asks for its own log.
Library open_library(const std::string& name);

/// Returns UCX of this process, opened at the first successful call: UNISONO_UCX_LIBRARY, or the system's. Throws as open_library.
const Library& library();

/// Keeps UCX's warnings from being shown while this lives, in this thread: a worker that is ended in the middle of transfers warns of each of them.
class Quiet {
 public:
  Quiet() noexcept;
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

/// Returns what `library` would throw; empty: nothing.
std::string why_not();

}  // namespace unisono::engines::ucx
