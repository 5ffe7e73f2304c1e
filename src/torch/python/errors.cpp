#include "torch/python/errors.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

constexpr c10::SourceLocation here{"unisono", "", 0};

}  // namespace

void throw_torch_error() {
  try {
    throw;
  } catch (const Timeout& late) {  // "Timed out" is what programs look for
    throw c10::DistBackendError(here, fmt::format("unisono: Timed out : {}", late.what()));
  } catch (const InvalidArgument& wrong) {
    throw c10::ValueError(here, wrong.what());
  } catch (const Unsupported& lacking) {
    throw c10::NotImplementedError(here, lacking.what());
  } catch (const Error& error) {
    throw c10::DistBackendError(here, fmt::format("unisono: {}", error.what()));
  }
}

std::exception_ptr as_torch_error(const std::exception_ptr& error) {
  if (!error) return nullptr;
  try {
    try {
      std::rethrow_exception(error);
    } catch (...) {
      throw_torch_error();
    }
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace unisono::libtorch
