#pragma once

#include "libtorch.h"
