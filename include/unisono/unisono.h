#pragma once

// Everything but unisono/torch.h.

#include "unisono/any_value.h"
#include "unisono/backend.h"
#include "unisono/collectives.h"
#include "unisono/context.h"
#include "unisono/error.h"
#include "unisono/launch.h"
#include "unisono/loader_plan.h"
#include "unisono/objects.h"
#include "unisono/parameters.h"
#include "unisono/point_to_point.h"
#include "unisono/process_group.h"
#include "unisono/rank_control.h"
#include "unisono/reduce_op.h"
#include "unisono/results.h"
#include "unisono/sampler.h"
#include "unisono/shared_memory.h"
#include "unisono/store.h"
#include "unisono/tensor.h"
#include "unisono/version.h"
#include "unisono/work.h"
