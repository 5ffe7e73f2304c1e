#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/operations.h"
#include "unisono/tensor.h"

namespace unisono::bench {

/// static: the same unmodified buffers in every call, as in public benchmarks. varying: inputs are rewritten before each call, outside the timing.
/// touch: as varying, and the time includes a consumer that reads the whole output.
enum class DataMode { constant, varying, touch };

/// The MPI whose launcher starts the ranks.
struct MpiOfPlan {
  std::string name = {};     ///< as a candidate
  std::string library = {};  ///< its file; empty: the system's own of that name, which is openmpi or mpich then
};

/// The measurements of one process set; written by the command, read by the drivers.
struct Plan {
  std::vector<Operation> operations = {};
  std::vector<std::size_t> sizes = {};  ///< bytes of the larger buffer
  DType dtype = DType::float32;
  DataMode data = DataMode::constant;
  std::vector<std::string> candidates = {};  ///< unisono, unisono-unchecked, unisono-unrecorded, gloo, ucx, ucx-engine, nccl, and the name of the MPI
  MpiOfPlan mpi = {};
  std::string backend = "auto";  ///< the backend of unisono
  int ranks = 1;
  int hosts = 1;  ///< number of hosts as which the ranks present themselves to unisono; with more than one it uses its engine between hosts
  bool in_place = false;
  bool shared_buffers = false;  ///< in memory that the other ranks can reach, which only unisono uses
  bool on_device = false;       ///< in memory of CUDA devices
  /// The words of rank 0 to the command beside the figures. progress: during a round, how much of it is done; counts: what a call takes of each rank.
  std::vector<std::string> reports = {};
  bool bind = true;  ///< bind each rank to a core of its own
  std::uint64_t seed = 1;
  std::chrono::microseconds block_time{3000};  ///< the aimed duration of a block of calls
  std::chrono::milliseconds timeout{600'000};  ///< the limit of every wait
  std::string folder = {};                     ///< the process set's folder for rendezvous files
  std::string arena = {};                      ///< the path under which the ranks map their shared memory

  std::string control() const { return folder + "/control"; }  ///< fifo: the command's orders to rank 0
  std::string events() const { return folder + "/events"; }    ///< fifo: rank 0's answers, one JSON object a line
  bool asks_for(std::string_view candidate) const { return std::ranges::find(candidates, candidate) != candidates.end(); }
  bool reports_on(std::string_view what) const { return std::ranges::find(reports, what) != reports.end(); }
};

std::string to_json(const Plan& plan);
Plan plan_from_json(const std::string& text);

std::string_view to_string(DataMode mode) noexcept;
/// Reads "f32" or "float32" …; throws InvalidArgument for a dtype that the bench does not measure.
DType parse_dtype(std::string_view text);
std::string_view short_name(DType dtype) noexcept;         ///< "f32"
std::span<const std::string_view> dtype_names() noexcept;  ///< the short names of all

}  // namespace unisono::bench
