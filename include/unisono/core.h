#pragma once

// The part of unisono.h that a program needs which only computes together: the context, groups,
// collectives and messages. It takes the compiler about three quarters of the time of unisono.h,
// which brings objects, parameters, launching, samplers, stores and engines as well.

#include "unisono/collectives.h"
#include "unisono/context.h"
#include "unisono/error.h"
#include "unisono/point_to_point.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/version.h"
#include "unisono/work.h"
