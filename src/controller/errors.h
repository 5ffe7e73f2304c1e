#pragma once

#include <cstddef>
#include <exception>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "unisono/error.h"

namespace unisono::controller {

/// The call that an error is about, as the controller knows it.
struct CallText {
  int worker = -1;
  std::string host = {};
  int rank = -1;              ///< of the worker in the world of the job; -1: it is not known
  std::string function = {};  ///< the name
  std::string types = {};     ///< of the arguments: "string, int32"
  std::source_location where = {};
};

/// Turns an exception of a call into bytes.
std::vector<std::byte> encode_error(const std::exception_ptr& error);
/// Makes the error that the call's future throws: an error of unisono in its own type, any other exception as RemoteError.
std::exception_ptr decode_error(std::span<const std::byte> bytes, const CallText& call);

/// The error of a call that was cancelled.
std::exception_ptr cancelled_call(const CallText& call);
/// The error of a call whose worker is lost. `why`: what the group of the controller and the worker has thrown.
std::exception_ptr lost_worker(const std::exception_ptr& why, const CallText& call);

}  // namespace unisono::controller
