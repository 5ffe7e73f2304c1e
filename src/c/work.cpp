#include "unisono/c/work.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "c/arguments.h"

namespace unisono::c {
namespace {

/// Returns the operations of a list of handles.
std::vector<Work> works_of(unisono_work* const* handles, std::size_t count, std::string_view operation) {
  if (handles == nullptr && count > 0) refuse(operation, "works is NULL, and count is " + std::to_string(count));
  std::vector<Work> list;
  for (std::size_t i = 0; i < count; ++i) list.push_back(works().find(handles[i], operation));
  return list;
}

/// Writes whether an operation is done, and throws its error.
template <class F>
unisono_status ask(const unisono_work* handle, std::int32_t* is_done, std::string_view operation, F&& ends) noexcept {
  return guarded([&] {
    std::int32_t& answer = target(is_done, operation, "is_done");
    Work work = works().find(handle, operation);
    try {
      answer = ends(work) ? 1 : 0;
    } catch (...) {
      if (work.is_completed()) answer = 1;
      throw;
    }
  });
}

}  // namespace
}  // namespace unisono::c

using unisono::Work;
using unisono::c::guarded;
using unisono::c::works;

unisono_status unisono_work_wait(unisono_work* work) {
  return guarded([&] { works().find(work, "work_wait").wait(); });
}

unisono_status unisono_work_wait_for(unisono_work* work, int64_t timeout_ms, int32_t* is_done) {
  return unisono::c::ask(work, is_done, "work_wait_for", [&](Work& under_way) {
    if (timeout_ms < 0) unisono::c::refuse("work_wait_for", "the timeout is negative: " + std::to_string(timeout_ms) + " ms");
    return under_way.wait_for(std::chrono::milliseconds(timeout_ms));
  });
}

unisono_status unisono_work_test(unisono_work* work, int32_t* is_done) {
  return unisono::c::ask(work, is_done, "work_test", [](Work& under_way) {
    if (!under_way.is_completed()) return false;
    under_way.wait();
    return true;
  });
}

unisono_status unisono_work_cancel(unisono_work* work, int32_t* is_cancelled) {
  return guarded([&] {
    std::int32_t& answer = unisono::c::target(is_cancelled, "work_cancel", "is_cancelled");
    answer = works().find(work, "work_cancel").cancel() ? 1 : 0;
  });
}

unisono_status unisono_work_source(unisono_work* work, int32_t* source, int32_t* tag) {
  return guarded([&] {
    const Work under_way = works().find(work, "work_source");
    if (source != nullptr) *source = under_way.source_rank();
    if (tag != nullptr) *tag = under_way.tag();
  });
}

unisono_status unisono_work_free(unisono_work* work) {
  return guarded([&] { static_cast<void>(works().remove(work, "work_free")); });
}

unisono_status unisono_wait_all(unisono_work* const* list, size_t count) {
  return guarded([&] {
    std::vector<Work> all = unisono::c::works_of(list, count, "wait_all");
    unisono::wait_all(all);
  });
}

unisono_status unisono_wait_any(unisono_work* const* list, size_t count, size_t* index) {
  return guarded([&] {
    std::size_t& done = unisono::c::target(index, "wait_any", "index");
    std::vector<Work> all = unisono::c::works_of(list, count, "wait_any");
    try {
      done = unisono::wait_any(all);
    } catch (...) {  // the operation that is done has failed: the one whose error this is
      const auto failed = std::find_if(all.begin(), all.end(), [](const Work& work) { return work.exception() == std::current_exception(); });
      if (failed != all.end()) done = static_cast<std::size_t>(failed - all.begin());
      throw;
    }
  });
}
