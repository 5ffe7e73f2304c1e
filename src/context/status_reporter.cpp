#include "context/status_reporter.h"

#include <cstddef>
#include <exception>

#include <fmt/format.h>

#include "rendezvous/growth.h"

namespace unisono::context {

int StatusReporter::place_of(int rank_in_world) const {
  const auto index = static_cast<std::size_t>(rank_in_world);
  return rank_in_world < 0 || index >= names_.size() ? rank_in_world : rendezvous::place_of(names_[index]);
}

std::string StatusReporter::key() const { return fmt::format("unisono/status/{}", place_of(rank_)); }

void StatusReporter::tell(const std::string& status) const noexcept {
  if (!store_) return;
  try {
    store_->set(key(), status);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the launcher is gone and has nothing to learn
  }
}

void StatusReporter::tell_failure(int culprit, const std::string& message) noexcept {
  if (is_controlled_) return;
  if (culprit == rank_ && blames_another_) return;
  if (culprit != rank_) blames_another_ = true;
  tell(fmt::format("poisoned {} {}", place_of(culprit), message));
}

void StatusReporter::tell_mismatch(int culprit, int ranks, const std::string& text) const noexcept {
  tell(fmt::format("mismatch {} {} {}", place_of(culprit), ranks, text));
}

void StatusReporter::tell_given_up(int blamed, std::string_view how) const noexcept {
  tell(fmt::format("poisoned {} rank {} {}", place_of(blamed), place_of(rank_), how));
}

void StatusReporter::tell_shrunk() noexcept {
  blames_another_ = false;
  tell("shrunk");
}

void StatusReporter::tell_controlled() noexcept {
  is_controlled_ = true;
  tell("controlled");
}

bool StatusReporter::tell_finalized_after_failure() const noexcept {
  if (!store_) return false;
  try {
    for (const char* const sound : {"shrunk", "initialized", "controlled"}) {
      if (store_->compare_set(key(), sound, "finalized") == "finalized") return true;
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the launcher is gone and has nothing to learn
  }
  return false;
}

}  // namespace unisono::context
