#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <unordered_map>

#include "controller/frame.h"
#include "recorder/recorder.h"
#include "unisono/detail/remote_call.h"

namespace unisono::controller {

/// The objects that live on a worker.
class Objects {
 public:
  /// Runs a function, with the object that it belongs to. `id`: of the object that the call names.
  detail::Frame run(const detail::RemoteFunction& function, int worker, std::uint64_t id, detail::Frame&& arguments);
  /// There is no such object, because the call that was to make it has failed with this text.
  void note_failure(const detail::RemoteFunction& maker, std::uint64_t id, std::string text);
  void drop(std::uint64_t id) { objects_.erase(id); }
  /// Drops all of them.
  void clear() { objects_.clear(); }

 private:
  struct Object {
    std::shared_ptr<void> object = {};
    std::string actor;
    std::string failure = {};  ///< why there is no object
  };
  const Object& find(const detail::RemoteFunction& function, std::uint64_t id) const;

  std::unordered_map<std::uint64_t, Object> objects_;
};

/// How a worker's service has ended.
enum class ServiceEnd {
  in_order,  ///< the controller has ended
  regroup,   ///< the members of the job change, and it is to go on
  lost,      ///< the controller is gone, or has given up
};

/// A worker's side of its connection to the controller: receives calls, carries them out one after the other, and sends what comes of them.
class Service {
 public:
  /// All but `link` have to outlive it.
  Service(std::unique_ptr<FrameLink> link, int worker, Objects& objects, recorder::Recorder& recorder);

  ServiceEnd run();
  /// Returns why the controller is lost.
  const std::exception_ptr& error() const { return error_; }

 private:
  struct Item {
    Head head;
    const detail::RemoteFunction* function = nullptr;  ///< of a call; null: this process has none of that name
    detail::Frame frame = {};
    std::exception_ptr error = {};  ///< of receiving it
    bool is_cancelled = false;
  };
  void receive();
  void receive_what_has_come();
  void cancel(std::uint64_t sequence);
  void carry_out(Item& item);
  void answer(Kind kind, std::uint64_t sequence, detail::Frame&& frame = {});
  static const detail::RemoteFunction* function_for(const Item& item);
  void run_call(Item& item);

  const std::unique_ptr<FrameLink> link_;
  const int worker_;
  Objects& objects_;
  recorder::Recorder& recorder_;
  const std::uint16_t group_;  ///< of its calls in the record
  std::deque<Item> queue_;
  std::size_t queued_bytes_ = 0;
  std::uint64_t done_ = 0;          ///< the last call that is done
  std::uint64_t acknowledged_ = 0;  ///< the last one that the controller knows to be done
  std::exception_ptr error_;
};

}  // namespace unisono::controller
