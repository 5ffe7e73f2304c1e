#pragma once

// The part of unisono.h for a program that only computes together: the context, groups, collectives and messages. The compiler does about three
// quarters of the work for it. unisono.h brings everything else as well (objects, launching, samplers, stores, backends).

#include "unisono/collectives.h"
#include "unisono/context.h"
#include "unisono/error.h"
#include "unisono/point_to_point.h"
#include "unisono/process_group.h"
#include "unisono/reduce_op.h"
#include "unisono/tensor.h"
#include "unisono/version.h"
#include "unisono/work.h"
