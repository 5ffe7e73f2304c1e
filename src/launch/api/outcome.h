#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error_text.h"
#include "base/file_descriptor.h"
#include "launch/job_options.h"

namespace unisono::launcher {

using base::Thrown;

/// The result of a forked rank for its parent: the bytes its function returned, or what it threw. It lies in memory shared by both, so that a result
/// of any size can be written while nobody reads. A rank that ends early leaves it empty.
class Outcome {
 public:
  /// Call it before fork. Throws LaunchFailed where the system refuses.
  Outcome();

  // For a rank that runs the program again (StartMethod::exec), of which this is the only descriptor that exec leaves open.
  void expect(std::string_view function);     ///< the parent says which function the rank is to call
  void pass_on() const;                       ///< the child calls it before exec
  static std::optional<Outcome> inherited();  ///< of this process if it is such a rank, and has not asked before
  std::string expected() const;

  // The rank calls one of these once. They throw LaunchFailed where memory runs out.
  void put_result(std::span<const std::byte> bytes);
  void put_error(const Thrown& error);

  // The parent calls these after the rank has ended.
  bool has_result() const;
  std::optional<Thrown> error() const;
  std::vector<std::byte> take_result();  ///< releases the memory, too

  void close() { file_.reset(); }

 private:
  explicit Outcome(base::FileDescriptor file) : file_(std::move(file)) {}

  enum class Kind : int { nothing, result, error };
  struct Header {
    Kind kind = Kind::nothing;
    bool of_peer = false;
    int culprit = -1;
    std::size_t type_bytes = 0;
    std::size_t bytes = 0;
  };
  Header header() const;
  void put(std::span<const std::byte> bytes, std::size_t at);
  void read(void* bytes, std::size_t count, std::size_t at) const;

  base::FileDescriptor file_;
};

/// Throws LaunchFailed where a rank has left no result, with the first cause, how it ended, and how the others did.
void throw_if_failed(const JobResult& result, std::span<const Outcome> outcomes);

}  // namespace unisono::launcher
