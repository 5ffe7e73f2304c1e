#include "coordination/failure_attribution.h"

#include <fmt/format.h>

#include "base/error_text.h"

namespace unisono::coordination {

void FailureAttribution::hold(const std::exception_ptr& error) {
  const std::string text = base::message_of(error);
  text_ =
      unexplained_.engine.empty() ? fmt::format("rank {}: {}", coordination_.rank(), text) : fmt::format("{} failed: {}", unexplained_.engine, text);
  until_.emplace(unexplained_.grace);
}

void FailureAttribution::hold_current() {
  try {
    throw;
  } catch (const Mismatch&) {
    throw;
  } catch (const GroupFailure&) {
    throw;
  } catch (const Error&) {
    if (unexplained_.passes_errors) throw;
    hold(std::current_exception());
  } catch (const std::exception&) {
    hold(std::current_exception());
  }
}

bool FailureAttribution::advance() {
  if (auto failure = coordination_.look_for_failures({}, false)) throw GroupFailure(std::move(*failure));
  if (until_->passed()) {
    throw GroupFailure({.cause = unexplained_.cause, .culprit = unexplained_.culprit, .message = *text_});
  }
  return false;
}

}  // namespace unisono::coordination
