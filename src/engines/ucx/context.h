#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "engines/ucx/library.h"
#include "engines/ucx/waker.h"
#include "unisono/engine.h"

namespace unisono::engines::ucx {

/// Returns the text of a status of UCX.
std::string text_of(const Library& library, ucs_status_t status);

/// UCX's devices and settings. The groups of a process share one for each choice of network devices.
class Context {
 public:
  /// Returns the context for a group. Throws BackendUnavailable where UCX refuses its settings or its devices, and in a child of fork whose parent
  /// has used UCX.
  static std::shared_ptr<Context> of(const EngineOptions& options);

  /// `devices`: for UCX_NET_DEVICES; empty: the user's choice stands.
  explicit Context(const std::string& devices);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Library& library() const { return library_; }
  ucp_context_h handle() const { return handle_; }
  Waker& waker() { return waker_; }
  /// False in a child of fork, which must not touch what it has inherited of UCX: it would close connections of its parent.
  bool is_of_this_process() const;

 private:
  const Library& library_;
  const pid_t process_;
  ucp_context_h handle_ = nullptr;
  Waker waker_;
};

}  // namespace unisono::engines::ucx
