#pragma once

// Everything but unisono/torch.h. unisono/core.h is the light part of it.

#include "unisono/any_value.h"
#include "unisono/engine.h"
#include "unisono/core.h"
#include "unisono/grid.h"
#include "unisono/launch.h"
#include "unisono/loader_plan.h"
#include "unisono/membership.h"
#include "unisono/objects.h"
#include "unisono/parameters.h"
#include "unisono/rank_control.h"
#include "unisono/results.h"
#include "unisono/sampler.h"
#include "unisono/shared_memory.h"
#include "unisono/store.h"
