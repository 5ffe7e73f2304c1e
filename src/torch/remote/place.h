#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <utility>

#include "torch/remote/session.h"

namespace unisono::libtorch {

/// Returns the calling thread's current worker.
int current_worker() noexcept;
void set_current_worker(int worker) noexcept;

/// Returns the session and the worker's number of a device, "remote" alone being the current one, for a tensor that is to be there.
///
/// @throws NotInitialized without a controller
/// @throws InvalidArgument for a number that no worker has, and if autograd was started before there was a controller, without threads for so many
/// workers
/// @throws Unsupported if the program has another backend in the place of ours
std::pair<std::shared_ptr<Session>, int> place_of(const at::Device& device);

/// Notes the backend of the program that has the place of ours.
void note_other_backend(std::string name);

}  // namespace unisono::libtorch
