// What one rank does alone, or first.

#include "unisono/rank_control.h"

#include <string>
#include <utility>

#include "calls.h"
#include "docs/rank_control.h"
#include "failure.h"
#include "module.h"
#include "places.h"
#include "signals.h"
#include "unisono/collectives.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// A scope of C++ whose end depends on whether an exception leaves it, as a scope of Python.
class FirstScope {
 public:
  FirstScope(nb::object rank, bool local, nb::object group) : rank_(std::move(rank)), local_(local), group_(std::move(group)) {}
  ~FirstScope() {
    if (scope_ != nullptr) end_failed();  // nobody has left the scope
  }
  FirstScope(const FirstScope&) = delete;
  FirstScope& operator=(const FirstScope&) = delete;

  void enter() {
    OneRankFirstOptions options;
    options.rank = rank_of(rank_, "OneRankFirst");
    options.where = place_of_program();
    options.local = local_;
    options.group = group_of(group_, "OneRankFirst");
    const Unlocked unlocked;
    scope_ = new OneRankFirst(options);
  }
  void exit(nb::handle exception) {
    if (scope_ == nullptr) return;
    if (!exception.is_none()) return end_failed();
    const Unlocked unlocked;
    delete std::exchange(scope_, nullptr);  // which may throw
  }
  bool is_first() const { return scope_ != nullptr && scope_->is_first(); }

 private:
  void end_failed() {
    struct Failed {};
    struct Leaves {
      OneRankFirst* scope;
      ~Leaves() { delete scope; }
    };
    try {
      const Leaves leaves{std::exchange(scope_, nullptr)};
      throw Failed();
    } catch (const Failed&) {  // NOLINT(bugprone-empty-catch): it only tells the scope that it failed
    }
  }

  nb::object rank_;
  bool local_;
  nb::object group_;
  OneRankFirst* scope_ = nullptr;
};

int rank_within(nb::handle rank, nb::handle group) {
  return detail::rank_within(rank_of(rank, "one_rank_only"), group_of(group, "one_rank_only"), "one_rank_only");
}

/// Raises the error that any rank brings; the one that brings it raises its own.
void agree(nb::handle group, nb::handle exception) {
  const ProcessGroup& ranks = group_of(group, "one_rank_only");
  const std::exception_ptr error = exception.is_none() ? nullptr : std::make_exception_ptr(Raised(nb::borrow(exception)));
  unlocked([&, where = place_of_program()] { detail::agree(ranks, "one_rank_only", error, where); });
}

nb::object wait_for_all(nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "barrier");
  unlocked([&] { barrier(trailing.group, trailing.options); });
  return nb::none();
}
nb::object start_barrier(nb::handle group, nb::handle timeout, int tag) {
  const Trailing trailing(group, timeout, tag, "barrier");
  return as_object(unlocked([&] { return barrier_async(trailing.group, trailing.options); }), {});
}
void wait_watched(nb::handle timeout, nb::handle group) {
  const auto at_most = timeout_or(timeout, std::chrono::minutes(30), "monitored_barrier");
  const ProcessGroup& ranks = group_of(group, "monitored_barrier");
  unlocked([&, where = place_of_program()] { monitored_barrier(at_most, ranks, where); });
}

}  // namespace

void bind_rank_control(nb::module_& m) {
  def_call(m, "barrier", &wait_for_all, &start_barrier, "", "", "None", docs::barrier);
  def_call(m, "barrier_async", &start_barrier, "", "Work", async_docstring("barrier", docs::barrier, docs::barrier_async));
  m.def("monitored_barrier", &wait_watched, "timeout"_a.none(), "group"_a = nb::none(),
        nb::sig("def monitored_barrier(timeout: Seconds, group: ProcessGroup | None = None) -> None"), docstring(docs::monitored_barrier).c_str());
  m.def(
      "synchronize",
      [](nb::handle group) {
        const ProcessGroup& ranks = group_of(group, "synchronize");
        unlocked([&, where = place_of_program()] { synchronize(ranks, where); });
      },
      "group"_a = nb::none(), nb::sig("def synchronize(group: ProcessGroup | None = None) -> None"), docstring(docs::synchronize).c_str());
  m.def(
      "is_main_process", [](nb::handle group) { return group_of(group, "is_main_process").rank() == 0; }, "group"_a = nb::none(),
      nb::sig("def is_main_process(group: ProcessGroup | None = None) -> bool"), docs::is_main_process);
  m.def("is_master_process", &is_master_process, docs::is_master_process);
  nb::class_<FirstScope>(m, "OneRankFirst", docstring(docs::one_rank_first).c_str())
      .def(nb::init<nb::object, bool, nb::object>(), nb::kw_only(), "rank"_a = 0, "local"_a = false, "group"_a = nb::none(),
           nb::sig("def __init__(self, *, rank: RankLike = 0, local: bool = False, group: ProcessGroup | None = None) -> None"))
      .def(
          "__enter__",
          [](nb::handle self) {
            content_of<FirstScope>(self, "OneRankFirst").enter();
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> OneRankFirst"))
      .def(
          "__exit__", [](FirstScope& scope, nb::handle, nb::handle exception, nb::handle) { scope.exit(exception); }, nb::arg().none(),
          nb::arg().none(), nb::arg().none(), nb::sig("def __exit__(self, type: object, value: object, traceback: object, /) -> None"))
      .def_prop_ro("is_first", &FirstScope::is_first, "Whether this rank goes first (on its host).");
  m.def("_rank_within", &rank_within, "rank"_a, "group"_a.none());
  m.def("_agree", &agree, "group"_a.none(), "exception"_a.none());
  m.def("gpu_mem_usage", &gpu_mem_usage, docs::gpu_mem_usage);
  m.def("gpu_mem_peak", &gpu_mem_peak, docs::gpu_mem_peak);
}

}  // namespace unisono::python
