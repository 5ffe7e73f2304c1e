#pragma once

#include <memory>

#include "engines/gloo/meeting.h"
#include "engines/gloo/reduction.h"
#include "unisono/engine.h"

namespace unisono::engines {

/// Gloo over TCP as an engine, with those of our collectives that Gloo has. Reductions use a ring: every element is combined on one rank and sent to
/// the others, so all get the same bits.
class GlooEngine final : public Engine {
 public:
  explicit GlooEngine(const EngineOptions& options);

  std::string_view name() const noexcept override { return "gloo"; }
  bool blocks() const noexcept override { return true; }
  bool offers(const CollectiveCall& call) const override;
  void run(const CollectiveCall& call) override;
  void abort(const Failure& failure) noexcept override;

 private:
  void carry_out(const CollectiveCall& call);
  [[noreturn]] void fail(const std::exception& error);

  const int rank_, size_;
  Meeting meeting_;  // empty in a group of one
  Room room_;
};

}  // namespace unisono::engines
