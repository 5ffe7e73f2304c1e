#include "torch/remote/place.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>

#include "unisono/error.h"

namespace unisono::libtorch {
namespace {

thread_local int current = 0;
/// The backend of the program that has the place of ours; empty if there is none.
std::string& other_backend() {
  static auto& name = *new std::string;
  return name;
}

/// Autograd's engine, of which one must know for how many devices it has threads.
struct StartedEngine : torch::autograd::Engine {
  static std::size_t start() {
    auto& engine = get_default_engine();
    engine.initialize_device_threads_pool();
    return (engine.*(&StartedEngine::device_ready_queues_)).size();
  }
};

/// Tells whether tensors can be on so many workers.
void check(int workers) {
  if (!other_backend().empty()) {
    throw Unsupported(
        fmt::format("remote tensors need the place that PyTorch has for one backend of a program, PrivateUse1, and \"{}\" has it", other_backend()));
  }
  if (static const std::size_t devices = StartedEngine::start(); devices < static_cast<std::size_t>(workers)) {
    throw InvalidArgument(fmt::format("autograd has threads for {} devices, and the number of workers is {}", devices, workers),
                          {.hint = "autograd starts them at the first backward pass: make the controller before that"});
  }
}

}  // namespace

int current_worker() noexcept { return current; }
void set_current_worker(int worker) noexcept { current = std::max(worker, 0); }

void note_other_backend(std::string name) { other_backend() = std::move(name); }

std::pair<std::shared_ptr<Session>, int> place_of(const at::Device& device) {
  auto session = current_session();
  check(session->size());
  const int worker = device.has_index() ? device.index() : current_worker();
  if (worker >= 0 && worker < session->size()) {
    session->prepare(worker);
    return {std::move(session), worker};
  }
  throw InvalidArgument(
      fmt::format("there is no device remote:{}: the controller has {} worker{}", worker, session->size(), session->size() == 1 ? "" : "s"));
}

}  // namespace unisono::libtorch
