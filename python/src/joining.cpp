// The ways into a job: what initialize is told, what a program adds to how it finds the others, and a part in a group beside any job.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "arguments.h"
#include "docs/joining.h"
#include "failure.h"
#include "module.h"
#include "signals.h"
#include "unisono/context.h"
#include "unisono/membership.h"
#include "unisono/store.h"

namespace unisono::python {
namespace {

using namespace nb::literals;

void make_options(InitOptions* place, const std::string& backend, const std::string& init_method, std::optional<int> rank,
                  std::optional<int> world_size, std::optional<int> local_rank, const std::string& group_name, nb::handle timeout,
                  std::shared_ptr<Store> store) {
  new (place) InitOptions;
  place->backend = backend;
  place->init_method = init_method;
  place->rank = rank;
  place->world_size = world_size;
  place->local_rank = local_rank;
  place->group_name = group_name;
  place->timeout = timeout_or(timeout, place->timeout, "initialize");
  place->store = std::move(store);
}

/// Returns what a function of the program has answered. Throws InvalidArgument for another type. The caller holds the interpreter lock.
template <class T>
T value_of(const nb::object& answer, const char* operation, const char* what) {
  T value{};
  if (!nb::try_cast<T>(answer, value)) throw_invalid(operation, what);
  return value;
}

void require_callable(nb::handle function, const char* operation, const char* what) {
  if (PyCallable_Check(function.ptr()) == 0) throw_invalid(operation, what);
}

void add_handler(const std::string& scheme, nb::object handler) {
  require_callable(handler, "register_rendezvous_handler", "a handler is a function of the InitOptions that returns a Rendezvous");
  register_rendezvous_handler(scheme, [kept = Kept(std::move(handler))](const InitOptions& options) {
    return locked(
        [&] { return value_of<Rendezvous>(kept.object()(nb::cast(options)), "initialize", "the handler of a scheme returns a Rendezvous"); });
  });
}

void add_probe(nb::object probe) {
  require_callable(probe, "register_context_probe", "a probe is a function without arguments that returns InitOptions, or None");
  register_context_probe([kept = Kept(std::move(probe))] {
    return locked([&] { return value_of<std::optional<InitOptions>>(kept.object()(), "sync", "a probe returns InitOptions, or None"); });
  });
}

void bind_options(nb::module_& m) {
  nb::class_<InitOptions>(m, "InitOptions", docs::init_options)
      .def("__init__", &make_options, "backend"_a = "auto", nb::kw_only(), "init_method"_a = "env://", "rank"_a = nb::none(),
           "world_size"_a = nb::none(), "local_rank"_a = nb::none(), "group_name"_a = "", "timeout"_a = nb::none(), "store"_a = nb::none(),
           nb::sig("def __init__(self, backend: str = 'auto', *, init_method: str = 'env://', rank: int | None = None, "
                   "world_size: int | None = None, local_rank: int | None = None, group_name: str = '', timeout: Seconds = None, "
                   "store: Store | None = None) -> None"))
      .def_rw("backend", &InitOptions::backend)
      .def_rw("init_method", &InitOptions::init_method)
      .def_rw("rank", &InitOptions::rank, nb::arg().none())
      .def_rw("world_size", &InitOptions::world_size, nb::arg().none())
      .def_rw("local_rank", &InitOptions::local_rank, nb::arg().none())
      .def_rw("group_name", &InitOptions::group_name)
      .def_prop_rw(
          "timeout", [](const InitOptions& options) { return std::chrono::duration<double>(options.timeout).count(); },
          [](InitOptions& options, nb::handle timeout) { options.timeout = timeout_or(timeout, InitOptions().timeout, "initialize"); },
          nb::for_getter(nb::sig("def timeout(self) -> float")), nb::for_setter(nb::arg().none()),
          nb::for_setter(nb::sig("def timeout(self, value: Seconds, /) -> None")), "Seconds.")
      .def_rw("store", &InitOptions::store, nb::for_setter(nb::arg().none()), nb::for_getter(nb::sig("def store(self) -> Store | None")));
  nb::class_<Rendezvous>(m, "Rendezvous", docs::rendezvous)
      .def(
          "__init__",
          [](Rendezvous* place, std::shared_ptr<Store> store, int rank, int world_size) {
            if (!store) throw_invalid("Rendezvous", "the processes meet in a store, and None is given");
            new (place) Rendezvous{.store = std::move(store), .rank = rank, .world_size = world_size};
          },
          "store"_a.none(), "rank"_a = 0, "world_size"_a = 1, nb::sig("def __init__(self, store: Store, rank: int = 0, world_size: int = 1) -> None"))
      .def_ro("store", &Rendezvous::store)
      .def_ro("rank", &Rendezvous::rank)
      .def_ro("world_size", &Rendezvous::world_size);
}

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

void bind_membership(nb::module_& m) {
  nb::class_<Member>(m, "_Membership", "A part in a group: the package's Membership is derived from it.", nb::is_weak_referenceable())
      .def("__init__", &make_member, "store"_a.none(), "rank"_a, "size"_a, "name"_a, "backend"_a, "timeout"_a.none(), "library"_a)
      .def("group", &Member::group, nb::keep_alive<0, 1>(), "The group. NotInitialized once it was left.")  // a group needs its member
      .def("leave", &Member::leave, Released(),
           "Waits, at most 10 s, for operations under way, and tells the others. Later calls on the group raise NotInitialized. A second call does "
           "nothing.")
      .def("leave_at_exit", &Member::leave_at_exit, Released(),
           "The same for a program that ends without leaving: ranks that still wait for this one are told how its process has ended.")
      .def(
          "abandon", &Member::abandon, "how"_a = "", Released(),
          R"(Leaves without waiting. With `how`, as "ended with ValueError: bad data", the group ends for all members, who get PeerFailed with that text.)");
}

}  // namespace

void bind_joining(nb::module_& m) {
  bind_membership(m);
  bind_options(m);
  m.def("register_rendezvous_handler", &add_handler, "scheme"_a, "handler"_a.none(),
        nb::sig("def register_rendezvous_handler(scheme: str, handler: collections.abc.Callable[[InitOptions], Rendezvous]) -> None"),
        docs::register_rendezvous_handler);
  m.def("register_context_probe", &add_probe, "probe"_a.none(),
        nb::sig("def register_context_probe(probe: collections.abc.Callable[[], InitOptions | None]) -> None"), docs::register_context_probe);
}

}  // namespace unisono::python
