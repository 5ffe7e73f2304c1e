#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/detail/object_bytes.h"
#include "unisono/detail/remote_call.h"
#include "unisono/detail/remote_functions.h"
#include "unisono/detail/remote_syntax.h"
#include "unisono/detail/standard.h"
#include "unisono/error.h"
#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/remote_future.h"

// A controller drives all ranks of a job from one program: rank 0 calls functions on the others, which serve.
//
// ```cpp
// double sum_of_file(const std::string& name);
// UNISONO_REMOTE(sum_of_file)                        // may be called on a worker
// UNISONO_ACTOR(Trainer, &Trainer::step, &Trainer::loss)
//
// int main() {
//   unisono::Controller workers;                     // under `unisono run -n 5`: ranks 1 to 4 serve, and never come back from here
//   auto parts = workers.call(sum_of_file, "data.csv");
//   auto trainer = workers.make<Trainer>(config);    // an object on each
//   for (int i = 0; i < 100; ++i) trainer.call(&Trainer::step, i);
//   std::printf("%f\n", workers.mean(trainer.call(&Trainer::loss)));
// }
// ```
//
// `call` returns before anybody has answered. Calls of one worker are carried out in the order in which they were made. Inside a call, world() is the
// group of the workers, and rank() the number of the worker: all collectives work among them. Arguments and results are objects (objects.h), or
// vectors, strings and spans of numbers, which from 64 KiB on travel without a copy.

namespace unisono {

namespace detail {

/// The result of a function or a method.
template <class F>
using remote_result_t = typename remote_pointer<std::remove_const_t<decltype(pointer_of(std::declval<const F&>()))>>::result_type;

/// An object on a worker, which is dropped there with the last handle.
class UNISONO_API RemoteObject {
 public:
  RemoteObject(const std::shared_ptr<RemoteWorkers>& workers, int worker);
  ~RemoteObject();
  RemoteObject(const RemoteObject&) = delete;
  RemoteObject& operator=(const RemoteObject&) = delete;

  int worker() const noexcept { return worker_; }
  std::uint64_t id() const noexcept { return id_; }
  /// Returns the workers. NotInitialized after the end of the controller, InvalidArgument once the worker was replaced.
  std::shared_ptr<RemoteWorkers> workers(std::source_location where) const;

 private:
  std::weak_ptr<RemoteWorkers> workers_;
  int worker_;
  int generation_;
  std::uint64_t id_;
};

/// Fails to compile, with a sentence, for a function that no worker can call, and if the arguments are not as many as the parameters.
template <class F, class... A>
constexpr void check_call() {
  static_assert(
      has_remote_pointer<F>,
      "unisono: a worker calls functions, and methods of actors: what a lambda has captured, or a function object holds, stays in this process. "
      "Register a function with UNISONO_REMOTE(function), and pass what it needs as arguments");
  if constexpr (has_remote_pointer<F>) {
    using Pointer = remote_pointer<std::remove_const_t<decltype(pointer_of(std::declval<const F&>()))>>;
    static_assert(Pointer::template takes<A...>, "unisono: the call has another number of arguments than the function has parameters");
  }
}
template <class F, class... A>
constexpr void check_function() {
  static_assert(!std::is_member_function_pointer_v<F>,
                "unisono: a method is called on an object: make one with make<T>(…), and call the method on what that returns");
  check_call<F, A...>();
}
template <class T, class F, class... A>
constexpr void check_method() {
  static_assert(std::is_member_function_pointer_v<F>, "unisono: a handle calls methods of its object: handle.call(&Trainer::step, 3)");
  check_call<F, A...>();
  if constexpr (std::is_member_function_pointer_v<F>)
    static_assert(std::is_same_v<typename remote_pointer<F>::actor_type, T>, "unisono: the method belongs to another type than the handle");
}

/// Makes the request of a call.
template <class F, class... A>
RemoteRequest request_of(std::source_location where, const F& f, A&&... arguments) {
  const auto pointer = pointer_of(f);
  using Pointer = remote_pointer<std::remove_const_t<decltype(pointer)>>;
  RemoteRequest request{.function = &registered(pointer), .arguments = Pointer::frame(std::forward<A>(arguments)...), .where = where};
  if constexpr (!std::is_void_v<typename Pointer::result_type>) request.memory = &memory_of_arguments<typename Pointer::result_type>;
  return request;
}

/// Makes the call on one worker. The arguments' frame may be that of several calls.
template <class R>
Future<R> begin_call(RemoteWorkers& workers, int worker, const RemoteRequest& request) {
  return Future<R>(workers.begin(worker, request));
}

/// Makes the request of what makes a T.
template <class T, class... A>
RemoteRequest request_to_make(std::source_location where, A&&... arguments) {
  static_assert(std::is_constructible_v<T, sent_as_t<A>...>, "unisono: the type of the actor has no constructor for these arguments");
  return {.function = &Maker<T, sent_as_t<A>...>::function, .arguments = frame_of<sent_as_t<A>...>(std::forward<A>(arguments)...), .where = where};
}

}  // namespace detail

template <class T>
class Handle;
template <class T>
class Handles;

namespace detail {
/// Makes an object on one worker.
template <class T>
Handle<T> make_object(const std::shared_ptr<RemoteWorkers>& workers, int worker, RemoteRequest request) {
  auto object = std::make_shared<RemoteObject>(workers, worker);
  request.object = object->id();
  auto made = begin_call<void>(*workers, worker, request);
  return Handle<T>(std::move(object), std::move(made));
}
}  // namespace detail

/// A handle of an object on one worker. The object lives until the last copy of the handle is gone, or the controller.
///
/// A call throws InvalidArgument once the worker was replaced: its objects are gone.
template <class T>
class Handle : public detail::Callable<Handle<T>> {
 public:
  /// Returns the number of the worker.
  int worker() const noexcept { return object_->worker(); }
  /// Returns the call that makes the object. Its error is thrown by calls of the methods as well.
  const Future<void>& made() const noexcept { return made_; }

  Handle(std::shared_ptr<detail::RemoteObject> object, Future<void> made) noexcept : object_(std::move(object)), made_(std::move(made)) {}

 private:
  friend class detail::Callable<Handle<T>>;
  friend class Handles<T>;
  template <class F, class... A>
  auto call_at(std::source_location where, const F& method, A&&... arguments) const {
    detail::check_method<T, F, A...>();
    auto request = detail::request_of(where, method, std::forward<A>(arguments)...);
    request.object = object_->id();
    return detail::begin_call<detail::remote_result_t<F>>(*object_->workers(where), worker(), request);
  }

  std::shared_ptr<detail::RemoteObject> object_;
  Future<void> made_;
};

/// Handles of objects, one on each worker, in the order of the workers.
template <class T>
class Handles : public detail::Callable<Handles<T>> {
 public:
  std::size_t size() const noexcept { return handles_.size(); }
  const Handle<T>& operator[](std::size_t i) const { return handles_.at(i); }
  auto begin() const noexcept { return handles_.begin(); }
  auto end() const noexcept { return handles_.end(); }

  explicit Handles(std::vector<Handle<T>> handles) noexcept : handles_(std::move(handles)) {}

 private:
  friend class detail::Callable<Handles<T>>;
  template <class F, class... A>
  auto call_at(std::source_location where, const F& method, A&&... arguments) const {
    detail::check_method<T, F, A...>();
    auto request = detail::request_of(where, method, std::forward<A>(arguments)...);
    std::vector<Future<detail::remote_result_t<F>>> futures;
    for (const auto& handle : handles_) {
      request.object = handle.object_->id();
      futures.push_back(detail::begin_call<detail::remote_result_t<F>>(*handle.object_->workers(where), handle.worker(), request));
    }
    return Futures<detail::remote_result_t<F>>(std::move(futures));
  }

  std::vector<Handle<T>> handles_;
};

namespace detail {
/// Puts data of other libraries on workers. A component that has such data specialises it: unisono/torch/remote.h does for at::Tensor.
template <class T>
struct remote_placement_traits {
  static_assert(sizeof(T) == 0, "unisono: only tensors can be put on workers: include unisono/torch.h for at::Tensor");
};
}  // namespace detail

/// One of the workers of a controller.
class Worker : public detail::Callable<Worker>, public detail::ObjectMaker<Worker> {
 public:
  /// Returns its number, from 0: rank() inside its calls.
  int number() const noexcept { return number_; }
  /// Returns why no call of this worker can go well any more; null: it lives, as far as that is known.
  std::exception_ptr failure() const { return workers_->failure(number_); }

  /// Returns a copy of a tensor on this worker: unisono/torch/remote.h.
  template <class T>
  auto tensor(const T& tensor) const {
    return detail::remote_placement_traits<T>::on_worker(workers_, number_, tensor);
  }

  Worker(std::shared_ptr<detail::RemoteWorkers> workers, int number) noexcept : workers_(std::move(workers)), number_(number) {}

 private:
  friend class detail::Callable<Worker>;
  friend class detail::ObjectMaker<Worker>;
  template <class F, class... A>
  auto call_at(std::source_location where, const F& f, A&&... arguments) const {
    detail::check_function<F, A...>();
    return detail::begin_call<detail::remote_result_t<F>>(*workers_, number_, detail::request_of(where, f, std::forward<A>(arguments)...));
  }
  template <class T, class... A>
  Handle<T> make_at(std::source_location where, A&&... arguments) const {
    return detail::make_object<T>(workers_, number_, detail::request_to_make<T>(where, std::forward<A>(arguments)...));
  }

  std::shared_ptr<detail::RemoteWorkers> workers_;
  int number_;
};

/// The workers of a job, and this process as their controller.
///
/// Every process of the job makes a Controller. In rank 0 it is made once all have come, and the program goes on. In every other rank the constructor
/// serves calls and never returns: at the end the process leaves the job and ends with code 0, or with 1 if the controller is lost. A process that
/// has no launcher starts its workers: `Controller workers({.workers = 4})`. They are forked from this
/// process, so it should not have other threads yet.
///
/// At its end a controller waits for all calls, and the workers end. If an exception leaves its scope, the workers end with that.
///
/// A worker that dies ends nothing: its calls have PeerFailed, and so have those that use collectives with it, on the workers where they run.
class UNISONO_API Controller : public detail::Callable<Controller>, public detail::ObjectMaker<Controller> {
 public:
  /// Meets the workers. Uses the context of this process, or has one of its own.
  ///
  /// @throws InvalidArgument if the process is alone and no workers are asked for, if a function is registered twice, and for options without sense
  /// @throws Mismatch if the processes have registered different functions; it names one and the side that lacks it
  /// @throws LaunchFailed if workers cannot be started
  explicit Controller(const ControllerOptions& options = {}, std::source_location where = std::source_location::current());
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  /// Returns the number of workers.
  int size() const noexcept { return workers_->size(); }
  /// Returns a worker. Worker i is rank i + 1 of the job, until one was replaced. InvalidArgument for a number that none has.
  Worker operator[](int number) const;

  /// Waits for the results of all workers and returns their sum, or their mean. The type of the results has +.
  template <class R>
  R sum(const Futures<R>& futures) const {
    const std::vector<R> results = futures.get();
    if (results.empty()) throw InvalidArgument("there is nothing to sum up", {.operation = "sum"});
    R total = results.front();
    for (std::size_t i = 1; i < results.size(); ++i) total = static_cast<R>(total + results[i]);
    return total;
  }
  template <class R>
  double mean(const Futures<R>& futures) const {
    return static_cast<double>(sum(futures)) / static_cast<double>(futures.size());
  }

  /// Returns copies of a tensor, one on each worker: unisono/torch/remote.h.
  template <class T>
  auto tensor(const T& tensor) const {
    return detail::remote_placement_traits<T>::on_all(workers_, tensor);
  }

  /// Puts another process in the place of a worker that is lost: its number is the same, its objects are gone, and calls of it go on. Waits until all
  /// calls of all workers are done, and for at most 120 s until the launcher has started one. Does nothing if the worker lives.
  ///
  /// Other lost workers get new processes as well, if some have come. The group of the workers is a new one afterwards, and so is everyone().
  ///
  /// @throws Unsupported in a job that has no launcher which starts processes in the place of lost ones: `unisono run -n MIN:MAX`
  /// @throws Timeout if none has come; the other workers go on
  void replace(int number, std::source_location where = std::source_location::current()) { workers_->replace(number, where); }

  /// Returns the group of the controller, which is rank 0, and all workers, in the controller and in a call: for collectives in which the controller
  /// takes part. A worker that is lost ends it, until it was replaced.
  ///
  /// @throws InvalidArgument anywhere else
  static ProcessGroup everyone(std::source_location where = std::source_location::current()) { return detail::everyone(where); }

  /// Returns the library's own side. Bindings use it; programs do not.
  const std::shared_ptr<detail::RemoteWorkers>& workers() const noexcept { return workers_; }

 private:
  friend class detail::Callable<Controller>;
  friend class detail::ObjectMaker<Controller>;
  template <class F, class... A>
  auto call_at(std::source_location where, const F& f, A&&... arguments) const {
    detail::check_function<F, A...>();
    const auto request = detail::request_of(where, f, std::forward<A>(arguments)...);
    std::vector<Future<detail::remote_result_t<F>>> futures;
    for (int i = 0; i < size(); ++i) futures.push_back(detail::begin_call<detail::remote_result_t<F>>(*workers_, i, request));
    return Futures<detail::remote_result_t<F>>(std::move(futures));
  }
  template <class T, class... A>
  Handles<T> make_at(std::source_location where, A&&... arguments) const {
    const auto request = detail::request_to_make<T>(where, std::forward<A>(arguments)...);
    std::vector<Handle<T>> handles;
    for (int i = 0; i < size(); ++i) handles.push_back(detail::make_object<T>(workers_, i, request));
    return Handles<T>(std::move(handles));
  }

  std::shared_ptr<detail::RemoteWorkers> workers_;
  int exceptions_;
};

}  // namespace unisono

#define UNISONO_DETAIL_JOIN_NOW(a, b) a##b
#define UNISONO_DETAIL_JOIN(a, b) UNISONO_DETAIL_JOIN_NOW(a, b)

/// Lets controllers call a function on this program's workers: UNISONO_REMOTE(sum_of_file), in a source, behind the function's declaration. The name
/// is part of what processes compare. A lambda without captures that has a name may stand in place of a function.
#define UNISONO_REMOTE(...)                                                                                            \
  [[maybe_unused]] static const ::unisono::detail::RemoteFunction& UNISONO_DETAIL_JOIN(unisono_remote_, __COUNTER__) = \
      ::unisono::detail::declare_pointer(#__VA_ARGS__, __VA_ARGS__);

/// Lets controllers make objects of a type on workers, and call these methods: UNISONO_ACTOR(Trainer, &Trainer::step, &Trainer::loss).
#define UNISONO_ACTOR(type, ...)                                                        \
  [[maybe_unused]] static const bool UNISONO_DETAIL_JOIN(unisono_actor_, __COUNTER__) = \
      ::unisono::detail::declare_actor<type>(#__VA_ARGS__, __VA_ARGS__);
