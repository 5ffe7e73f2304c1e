#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "simulate/network.h"
#include "simulate/parameters.h"
#include "simulate/program.h"
#include "unisono/error.h"

namespace unisono::simulate {

/// A call with more messages than a simulation can follow within minutes.
class TooLarge : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// Messages that one simulation follows at most; more would take more than some minutes.
inline constexpr double most_messages = 8e7;

/// How the ranks of a job are computed.
enum class Folding : unsigned char {
  automatic,  ///< ranks that do the same at the same distances are computed once, for each place in the network's period
  never,      ///< every rank is computed
};

/// The programs of all ranks of a call. Ranks of the same program share it.
class Programs {
 public:
  /// Writes the programs. Where they would take too long, neighbouring ranks with the same place on their hosts are taken to have the same program
  /// when the first, the last and some ranks between them do. Throws TooLarge where even that is too much.
  Programs(ProgramWriter& writer, const Call& call);

  const Program& of(int rank) const { return *programs_[static_cast<std::size_t>(rank)]; }
  /// Returns true where ranks with the same place on their hosts have the same program, and no rank is addressed by its number.
  bool are_the_same() const { return are_the_same_; }

 private:
  using Shared = std::shared_ptr<const Program>;
  void write_all();
  void fill(int first, int last, int local);
  Shared write(int rank);
  bool are_alike(const Shared& a, const Shared& b) const;
  bool look_the_same() const;

  ProgramWriter& writer_;
  Call call_;
  double tolerance_ = 0;
  std::vector<Shared> programs_;
  std::size_t instructions_ = 0;
  bool are_the_same_ = false;
};

/// A rank that comes late to the call, or whose processor is slower than the others'.
struct Straggler {
  int rank = 0;
  double late_us = 0;
  double slowness = 1;
};

struct SimulationOptions {
  NetworkOptions network = {};
  Parameters parameters = {};
  Folding folding = Folding::automatic;
  std::vector<Straggler> stragglers = {};
  double most_messages = simulate::most_messages;  ///< that may have to be followed one by one
  std::function<void(double)> progress = {};       ///< called now and then with the part, from 0 to 1, that is done
};

}  // namespace unisono::simulate
