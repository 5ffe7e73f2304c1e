#include "simulate/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace unisono::simulate {
namespace {

constexpr double few_instructions = 4e6;               // of all programs together: all are written
constexpr std::size_t most_instructions = 30'000'000;  // that are written at all

}  // namespace

Programs::Programs(ProgramWriter& writer, const Call& call) : writer_(writer), call_(call), programs_(static_cast<std::size_t>(call.ranks)) {
  const double of_rank = writer.expected_messages();
  if (of_rank > most_messages) {
    throw TooLarge(fmt::format("each of {} ranks would send {:.0f} messages by '{}', and the limit is {:.0f}", call.ranks, of_rank,
                               writer.algorithm(), most_messages));
  }
  const Shared sample = write(call.ranks / 2);
  const double all = (static_cast<double>(sample->instructions.size()) + of_rank) * call.ranks;
  if (all <= few_instructions) {
    write_all();
  } else {
    tolerance_ = writer.tolerance();
    const int hosts = call.hosts();
    for (int local = 0; local < call.ranks_per_host; ++local) {
      const int last = local + (hosts - 1) * call.ranks_per_host < call.ranks ? hosts - 1 : hosts - 2;
      if (last >= 0) fill(0, last, local);
    }
  }
  are_the_same_ = look_the_same();
}

Programs::Shared Programs::write(int rank) {
  Shared& program = programs_[static_cast<std::size_t>(rank)];
  if (program) return program;
  program = std::make_shared<const Program>(writer_.program_of(rank));
  instructions_ += program->instructions.size();
  if (instructions_ > most_instructions) {
    throw TooLarge(fmt::format("the schedules of {} ranks by '{}' are too long to be simulated: rank {} alone has {} steps", call_.ranks,
                               writer_.algorithm(), rank, program->instructions.size()));
  }
  return program;
}

void Programs::write_all() {
  for (int r = 0; r < call_.ranks; ++r) {
    const Shared program = write(r);
    if (r >= call_.ranks_per_host && are_alike(program, programs_[static_cast<std::size_t>(r - call_.ranks_per_host)])) {
      programs_[static_cast<std::size_t>(r)] = programs_[static_cast<std::size_t>(r - call_.ranks_per_host)];
    }
  }
}

bool Programs::are_alike(const Shared& a, const Shared& b) const { return a == b || a->is_like(*b, tolerance_); }

/// Gives the ranks with that place on the hosts from `first` to `last` their programs.
void Programs::fill(int first, int last, int local) {
  const auto rank_of = [&](int host) { return host * call_.ranks_per_host + local; };
  const Shared begin = write(rank_of(first)), end = write(rank_of(last));
  if (last - first < 2) return;
  const int middle = first + (last - first) / 2;
  const int near_first = first + 1, odd = first + static_cast<int>((last - first) * 0.382);
  const bool alike = are_alike(begin, end) && are_alike(begin, write(rank_of(middle))) && are_alike(begin, write(rank_of(near_first))) &&
                     are_alike(begin, write(rank_of(odd)));
  if (alike) {
    for (int host = first; host <= last; ++host) programs_[static_cast<std::size_t>(rank_of(host))] = begin;
    return;
  }
  fill(first, middle, local);
  fill(middle, last, local);
}

bool Programs::look_the_same() const {
  if (call_.ranks % call_.ranks_per_host != 0) return false;
  for (int r = 0; r < call_.ranks_per_host; ++r) {
    const Shared& first = programs_[static_cast<std::size_t>(r)];
    if (std::ranges::any_of(first->instructions, &Instruction::is_absolute)) return false;
    for (int other = r; other < call_.ranks; other += call_.ranks_per_host) {
      if (programs_[static_cast<std::size_t>(other)] != first) return false;
    }
  }
  return true;
}

}  // namespace unisono::simulate
