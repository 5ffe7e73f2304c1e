#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "arguments.h"
#include "buffer.h"
#include "unisono/detail/request.h"
#include "unisono/work.h"

namespace unisono::python {

/// What an operation under way works on.
struct Memory {
  std::vector<Buffer> buffers = {};
  nb::object result = nb::none();  // what the blocking call would return
};

/// A Work, and what it works on: kept until the operation is done, also where nobody keeps the Work.
class PythonWork {
 public:
  PythonWork(Work work, Memory memory);
  ~PythonWork();
  PythonWork(const PythonWork&) = delete;
  PythonWork& operator=(const PythonWork&) = delete;

  void wait();
  bool wait_for(nb::handle timeout);
  bool is_completed();
  bool cancel();
  void on_completion(nb::object callback);
  nb::object exception();
  nb::object result();
  int source_rank() const { return work_.source_rank(); }
  int tag() const { return work_.tag(); }

  static void wait_all(nb::handle works);
  static std::size_t wait_any(nb::handle works);

 private:
  /// Calls it without the interpreter lock. An error ends the use of the buffers.
  template <class F>
  auto waiting(F&& f);
  void let_go();

  Work work_;
  std::shared_ptr<Memory> memory_;
  std::optional<void*> stream_;
  bool is_awaited_;  // see Buffer::is_awaited
};

/// Carries out a request without the interpreter lock. `stream`: that of memory of a device.
void carry_out(const detail::Request& request, const Trailing& trailing, const std::optional<void*>& stream = {});
/// The same for a call that writes to `out`, whose library may have to find it complete.
void carry_out(const detail::Request& request, const Trailing& trailing, const Buffer& out, const std::optional<void*>& stream = {});
nb::object start(const detail::Request& request, const Trailing& trailing, Memory memory);
nb::object start(const detail::MessageRequest& request, const Trailing& trailing, Memory memory);
/// A Work for each of several, as `batch` returns them.
nb::object as_object(Work work, Memory memory);

}  // namespace unisono::python
