// A part in a group that has nothing to do with the process's job. The package's Membership is made of it.

#include "unisono/membership.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>

#include "arguments.h"
#include "module.h"
#include "signals.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// A Membership that may be dropped with the interpreter lock: it waits for operations without it.
class Member {
 public:
  explicit Member(const MembershipOptions& options) : membership_(std::make_unique<Membership>(options)) {}
  ~Member() {
    const Unlocked unlocked;
    membership_.reset();
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  ProcessGroup group() const { return membership_->group(); }
  void leave() { membership_->leave(); }
  void leave_at_exit() { membership_->leave_at_exit(); }
  void abandon(const std::string& how) { membership_->abandon(how); }

 private:
  std::unique_ptr<Membership> membership_;
};

void make_member(Member* place, std::shared_ptr<Store> store, int rank, int size, const std::string& name, const std::string& backend,
                 nb::handle timeout, const std::string& library) {
  MembershipOptions options;
  options.store = std::move(store);
  options.rank = rank;
  options.size = size;
  options.name = name;
  options.backend = backend;
  options.timeout = timeout_or(timeout, options.timeout, "Membership");
  options.library = library;
  const Unlocked unlocked;
  new (place) Member(options);
}

using Released = nb::call_guard<Unlocked>;

}  // namespace

void bind_membership(nb::module_& m) {
  nb::class_<Member>(m, "_Membership", nb::is_weak_referenceable())
      .def("__init__", &make_member, "store"_a.none(), "rank"_a, "size"_a, "name"_a, "backend"_a, "timeout"_a.none(), "library"_a)
      .def("group", &Member::group, nb::keep_alive<0, 1>())  // a group needs its member
      .def("leave", &Member::leave, Released())
      .def("leave_at_exit", &Member::leave_at_exit, Released())
      .def("abandon", &Member::abandon, "how"_a, Released());
}

}  // namespace unisono::python
