#pragma once

// all_gather_list, gather_list and scatter_list stand with the other calls on tensors.
#include "unisono/torch/tensor.h"
