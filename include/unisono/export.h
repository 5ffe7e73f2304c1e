#pragma once

/// Marks what the shared library exports; everything else stays hidden.
#define UNISONO_API [[gnu::visibility("default")]]
