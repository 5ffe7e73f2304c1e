#pragma once

#include "unisono/error.h"
#include "unisono/export.h"

namespace unisono::detail {

/// Returns the number of the worker that an error of a group's call blames, if the error is thrown on a worker of a controller: its culprit is a
/// rank of that group. The culprit itself in an error of no group, and anywhere else; -1 if it blames nobody, the controller, or somebody unknown.
UNISONO_API int blamed_worker(const ErrorInfo& error) noexcept;

}  // namespace unisono::detail
